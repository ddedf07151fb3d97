package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	productModule = "open-cluster-management.io/fleet-rollout"

	// cacheVariable names the environment variable that moves the cache.
	cacheVariable = "FLEET_ROLLOUT_CACHE"
)

// CacheDir returns the folder that holds built binaries and the default lab. It
// is $FLEET_ROLLOUT_CACHE, or fleet-rollout in the user's cache folder.
func CacheDir() (string, error) {
	if dir := os.Getenv(cacheVariable); dir != "" {
		return filepath.Abs(dir)
	}
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a cache folder (set %s to choose one): %w", cacheVariable, err)
	}
	return filepath.Join(base, "fleet-rollout"), nil
}

// DefaultDir returns the folder of the lab that cmd/lab starts.
func DefaultDir() (string, error) {
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(cache, "lab", "default"), nil
}

// RepoRoot returns the folder of the product's go.mod, found by walking up from
// the working directory.
func RepoRoot() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if isProductRoot(dir) {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no go.mod of module %s in %s or above it; run from inside the repository", productModule, start)
		}
	}
}

// isProductRoot compares the whole module line: the nested modules below
// test/lab/bin have the product's path as a prefix.
func isProductRoot(dir string) bool {
	content, err := os.ReadFile(filepath.Join(dir, "go.mod"))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(content)) {
		if fields := strings.Fields(line); len(fields) == 2 && fields[0] == "module" {
			return fields[1] == productModule
		}
	}
	return false
}

// moduleDir returns where the Go command keeps the source of a module that
// buildModule (a folder with a go.mod) requires, downloading it if needed.
func moduleDir(ctx context.Context, buildModule, path string) (string, error) {
	if _, err := runGo(ctx, buildModule, "mod", "download", path); err != nil {
		return "", err
	}
	dir, err := runGo(ctx, buildModule, "list", "-m", "-f", "{{.Dir}}", path)
	if err != nil {
		return "", err
	}
	if dir == "" {
		return "", fmt.Errorf("module %s has no source folder in the module cache", path)
	}
	return dir, nil
}

// runGo runs the Go command in dir and returns its trimmed standard output.
func runGo(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	// A workspace would merge module graphs that are kept apart on purpose.
	cmd.Env = append(os.Environ(), "GOWORK=off")
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			return "", fmt.Errorf("go %s in %s: %w\n%s", strings.Join(args, " "), dir, err, exit.Stderr)
		}
		return "", fmt.Errorf("go %s in %s: %w", strings.Join(args, " "), dir, err)
	}
	return strings.TrimSpace(string(out)), nil
}
