// Package version tells which build of Fleet Rollout this is.
package version

import "runtime/debug"

// stamp is set by the linker:
//
//	go build -ldflags "-X open-cluster-management.io/fleet-rollout/internal/version.stamp=v1.2.3" ./cmd/...
var stamp string

// String returns the stamped version, or else what Go recorded of the module
// and its commit.
func String() string {
	if stamp != "" {
		return stamp
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return describe(info)
}

func describe(info *debug.BuildInfo) string {
	if info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	const shortCommit = 12
	for _, setting := range info.Settings {
		if setting.Key == "vcs.revision" && setting.Value != "" {
			return "devel-" + setting.Value[:min(shortCommit, len(setting.Value))]
		}
	}
	return "devel"
}
