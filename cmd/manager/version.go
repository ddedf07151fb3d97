package main

import "runtime/debug"

// version is stamped by the build:
//
//	go build -ldflags "-X main.version=v1.2.3" ./cmd/manager
var version string

// versionString is the stamped version, or else what Go recorded of the module
// and its commit.
func versionString() string {
	if version != "" {
		return version
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	return describeBuild(info)
}

func describeBuild(info *debug.BuildInfo) string {
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
