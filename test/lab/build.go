package lab

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Names of the binaries, as Build writes them.
const (
	binEtcd              = "etcd"
	binAPIServer         = "kube-apiserver"
	binControllerManager = "kube-controller-manager"
	binScheduler         = "kube-scheduler"
	binKubectl           = "kubectl"
	binRegistration      = "registration"
	binPlacement         = "placement"
	binWork              = "work"
	binAddon             = "addon"
	binKwok              = "kwok"
)

// binary says which package of which nested module gives a binary.
type binary struct {
	name, module, pkg string
}

const (
	kubernetesModule = "kubernetes"
	kwokModule       = "kwok"
)

// binaries returns every binary of the lab, those of the light-weight mode first.
func binaries() []binary {
	return []binary{
		{binEtcd, kubernetesModule, "go.etcd.io/etcd/server/v3"},
		{binAPIServer, kubernetesModule, "k8s.io/kubernetes/cmd/kube-apiserver"},
		{binControllerManager, kubernetesModule, "k8s.io/kubernetes/cmd/kube-controller-manager"},
		{binScheduler, kubernetesModule, "k8s.io/kubernetes/cmd/kube-scheduler"},
		{binKubectl, kubernetesModule, "k8s.io/kubernetes/cmd/kubectl"},
		{binRegistration, kubernetesModule, "open-cluster-management.io/ocm/cmd/registration"},
		{binPlacement, kubernetesModule, "open-cluster-management.io/ocm/cmd/placement"},
		{binWork, kubernetesModule, "open-cluster-management.io/ocm/cmd/work"},
		{binAddon, kubernetesModule, "open-cluster-management.io/ocm/cmd/addon"},
		{binKwok, kwokModule, "sigs.k8s.io/kwok/cmd/kwok"},
	}
}

// nestedModule returns the folder of one of the modules that only build binaries.
func nestedModule(root, name string) string {
	return filepath.Join(root, "test", "lab", "bin", name)
}

// Build builds those binaries of the lab that the cache lacks and returns their
// folder. Without names it builds all. The first build of everything takes 15 to
// 20 minutes on two cores, a later one seconds, and none at all if the nested
// go.mod files have not changed. Progress goes to log, which may be nil. Two
// processes that build at once take turns.
func Build(ctx context.Context, log io.Writer, names ...string) (string, error) {
	log = orDiscard(log)
	root, err := RepoRoot()
	if err != nil {
		return "", err
	}
	dir, err := binaryDir(root)
	if err != nil {
		return "", err
	}
	missing, err := missingBinaries(dir, names)
	if err != nil || len(missing) == 0 {
		return dir, err
	}
	unlock, err := lockFile(ctx, filepath.Join(filepath.Dir(dir), "build.lock"), log,
		"Another process builds the lab's binaries; waiting for it.")
	if err != nil {
		return "", err
	}
	defer unlock()
	// The one we waited for may have built them.
	if missing, err = missingBinaries(dir, names); err != nil || len(missing) == 0 {
		return dir, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	fmt.Fprintf(log, "Building %d of the lab's binaries into %s: the first time 15 to 20 minutes on two cores for all, later seconds each.\n", len(missing), dir)
	for i, b := range missing {
		fmt.Fprintf(log, "  %s (%d of %d) …", b.name, i+1, len(missing))
		start := time.Now()
		if err := buildBinary(ctx, root, b, filepath.Join(dir, b.name)); err != nil {
			fmt.Fprintln(log, " failed")
			return "", fmt.Errorf("build %s: %w", b.name, err)
		}
		fmt.Fprintf(log, " %s\n", time.Since(start).Round(time.Second))
	}
	return dir, nil
}

// BuildProduct builds packages of the product's own module, "./cmd/manager" for
// one, into the cache and returns the folder that holds them, each under the last
// element of its path. It always asks the Go command, so what it returns is the
// code as it is now.
func BuildProduct(ctx context.Context, log io.Writer, packages ...string) (string, error) {
	root, err := RepoRoot()
	if err != nil {
		return "", err
	}
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	// Two checkouts share the cache but not their code.
	dir := filepath.Join(cache, "product", shortHash([]byte(root)))
	unlock, err := lockFile(ctx, filepath.Join(dir, "build.lock"), orDiscard(log),
		"Another process builds the product; waiting for it.")
	if err != nil {
		return "", err
	}
	defer unlock()
	for _, pkg := range packages {
		if err := goBuild(ctx, root, pkg, filepath.Join(dir, filepath.Base(pkg))); err != nil {
			return "", fmt.Errorf("build %s: %w", pkg, err)
		}
	}
	return dir, nil
}

// binaryDir returns the folder for the binaries that the present nested go.mod
// files describe: another version is another folder.
func binaryDir(root string) (string, error) {
	var content []byte
	for _, module := range []string{kubernetesModule, kwokModule} {
		data, err := os.ReadFile(filepath.Join(nestedModule(root, module), "go.mod"))
		if err != nil {
			return "", err
		}
		content = append(content, data...)
	}
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(cache, "bin", shortHash(content)), nil
}

func shortHash(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])[:12]
}

// missingBinaries returns which of the named binaries dir lacks, all of them if
// no name is given.
func missingBinaries(dir string, names []string) ([]binary, error) {
	wanted := binaries()
	if len(names) > 0 {
		for _, name := range names {
			if !slices.ContainsFunc(wanted, func(b binary) bool { return b.name == name }) {
				return nil, fmt.Errorf("the lab has no binary %q", name)
			}
		}
		wanted = slices.DeleteFunc(wanted, func(b binary) bool { return !slices.Contains(names, b.name) })
	}
	return slices.DeleteFunc(wanted, func(b binary) bool {
		_, err := os.Stat(filepath.Join(dir, b.name))
		return err == nil
	}), nil
}

func buildBinary(ctx context.Context, root string, b binary, target string) error {
	module := nestedModule(root, b.module)
	// Without symbol tables the binaries are a third smaller and link faster.
	ldflags := "-s -w"
	if b.module == kubernetesModule {
		version, err := runGo(ctx, module, "list", "-m", "-f", "{{.Version}}", "k8s.io/kubernetes")
		if err != nil {
			return err
		}
		ldflags += " " + versionFlags(version)
	}
	return goBuild(ctx, module, b.pkg, target, "-ldflags", ldflags)
}

// versionFlags makes Kubernetes report its version. A plain build reports
// v0.0.0-master, which OCM and `requires.kubernetesVersion` would then compare.
func versionFlags(version string) string {
	const pkg = "k8s.io/component-base/version"
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	flags := []string{fmt.Sprintf("-X %s.gitVersion=%s", pkg, version)}
	if len(parts) == 3 {
		flags = append(flags,
			fmt.Sprintf("-X %s.gitMajor=%s", pkg, parts[0]),
			fmt.Sprintf("-X %s.gitMinor=%s", pkg, parts[1]))
	}
	return strings.Join(flags, " ")
}

// goBuild builds pkg of the module in dir. The target appears only when it is
// whole: an interrupted build must not leave a binary that looks usable.
func goBuild(ctx context.Context, dir, pkg, target string, flags ...string) error {
	temporary := fmt.Sprintf("%s.%d.tmp", target, os.Getpid())
	defer os.Remove(temporary)
	args := append([]string{"build", "-o", temporary}, flags...)
	if _, err := runGo(ctx, dir, append(args, pkg)...); err != nil {
		return err
	}
	return os.Rename(temporary, target)
}

func orDiscard(log io.Writer) io.Writer {
	if log == nil {
		return io.Discard
	}
	return log
}
