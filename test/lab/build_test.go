package lab

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestVersionFlags(t *testing.T) {
	const pkg = "-X k8s.io/component-base/version."
	want := pkg + "gitVersion=v1.34.4 " + pkg + "gitMajor=1 " + pkg + "gitMinor=34"
	if got := versionFlags("v1.34.4"); got != want {
		t.Errorf("got %s", got)
	}
}

func TestMissingBinaries(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, binEtcd), nil, 0o700); err != nil {
		t.Fatal(err)
	}
	missing, err := missingBinaries(dir, []string{binEtcd, binAPIServer})
	if err != nil || len(missing) != 1 || missing[0].name != binAPIServer {
		t.Errorf("got %v, %v", missing, err)
	}
	missing, err = missingBinaries(dir, nil)
	if err != nil || len(missing) != len(binaries())-1 {
		t.Errorf("without names %d are missing, %v", len(missing), err)
	}
	if slices.ContainsFunc(missing, func(b binary) bool { return b.name == binEtcd }) {
		t.Error("etcd is there and counts as missing")
	}
	if _, err := missingBinaries(dir, []string{"etdc"}); err == nil {
		t.Error("an unknown name was accepted")
	}
}
