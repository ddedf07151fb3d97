package lab

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseClusterSpec(t *testing.T) {
	for text, want := range map[string]ClusterSpec{
		"c1":                           {Name: "c1", Labels: map[string]string{}},
		"c1:":                          {Name: "c1", Labels: map[string]string{}},
		"c1:env=staging":               {Name: "c1", Labels: map[string]string{"env": "staging"}},
		"eu-1:tier=production,zone=a,": {Name: "eu-1", Labels: map[string]string{"tier": "production", "zone": "a"}},
		"c1:empty=":                    {Name: "c1", Labels: map[string]string{"empty": ""}},
	} {
		got, err := ParseClusterSpec(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
	for _, text := range []string{"", ":env=staging", "C1", "../x", "c1:env", "c1:=x", "c1:a b=c", "c1:a=b c", "hub", "lab"} {
		if got, err := ParseClusterSpec(text); err == nil {
			t.Errorf("%q was read as %+v, want an error", text, got)
		}
	}
}

func TestTwoClustersOfOneNameAreRefused(t *testing.T) {
	if err := validateClusters([]ClusterSpec{{Name: "a"}, {Name: "b"}, {Name: "a"}}); err == nil {
		t.Error("no error")
	}
}

func TestDefaultClusters(t *testing.T) {
	want := []ClusterSpec{
		{Name: "c1", Labels: map[string]string{"env": "staging"}, RestrictedWorkAgent: true},
		{Name: "c2", Labels: map[string]string{"tier": "gray"}},
		{Name: "c3", Labels: map[string]string{"tier": "production"}},
		{Name: "c4", Labels: map[string]string{"tier": "production"}},
	}
	if diff := cmp.Diff(want, DefaultClusters(4)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := validateClusters(DefaultClusters(12)); err != nil {
		t.Error(err)
	}
}

func TestZeroSpecFieldsHaveDefaults(t *testing.T) {
	if got := (ClusterSpec{}).leaseDurationSeconds(); got != 10 {
		t.Errorf("lease duration %d", got)
	}
	if got := (ClusterSpec{LeaseDurationSeconds: 60}).leaseDurationSeconds(); got != 60 {
		t.Errorf("lease duration %d", got)
	}
	if got := (ClusterSpec{}).nodes(); got != 2 {
		t.Errorf("nodes %d", got)
	}
}
