// Package docs holds the documentation, and what keeps it true.
package docs

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// testsOfTheTree are the names of all test functions.
func testsOfTheTree(t *testing.T) map[string]bool {
	t.Helper()
	tests := map[string]bool{}
	declaration := regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9]+)\(`)
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, match := range declaration.FindAllStringSubmatch(string(source), -1) {
			tests[match[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return tests
}

func TestTheLawsNameTheirTests(t *testing.T) {
	raw, err := os.ReadFile("laws.md")
	if err != nil {
		t.Fatal(err)
	}
	laws := string(raw)
	_, named, found := strings.Cut(laws, "## Where they are tested")
	if !found {
		t.Fatal("laws.md does not say where the laws are tested")
	}
	tests := testsOfTheTree(t)
	for _, match := range regexp.MustCompile("`(Test[A-Za-z0-9]+)`").FindAllStringSubmatch(named, -1) {
		if !tests[match[1]] {
			t.Errorf("laws.md names %s, which does not exist", match[1])
		}
	}
	for test := range tests {
		if strings.HasPrefix(test, "TestLaw") && !strings.Contains(named, "`"+test+"`") {
			t.Errorf("laws.md does not name %s", test)
		}
	}
	for _, law := range regexp.MustCompile(`(?m)^\*\*(\d+)[.*]`).FindAllStringSubmatch(laws, -1) {
		if !regexp.MustCompile(`(?m)^\*\*` + law[1] + `\.\*\* .*Test`).MatchString(named) {
			t.Errorf("laws.md names no test of law %s", law[1])
		}
	}
}
