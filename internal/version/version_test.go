package version

import (
	"runtime/debug"
	"testing"
)

func TestVersionIsTheStampOrWhatGoRecorded(t *testing.T) {
	cases := []struct {
		name string
		info debug.BuildInfo
		want string
	}{
		{"installed by version", debug.BuildInfo{Main: debug.Module{Version: "v1.2.3"}}, "v1.2.3"},
		{"built from a commit", debug.BuildInfo{
			Main:     debug.Module{Version: "(devel)"},
			Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef"}},
		}, "devel-0123456789ab"},
		{"built from nothing", debug.BuildInfo{}, "devel"},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			if got := describe(&tc.info); got != tc.want {
				t.Errorf("version %q, want %q", got, tc.want)
			}
		})
	}
}
