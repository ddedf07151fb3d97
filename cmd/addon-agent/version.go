package main

import "runtime/debug"

// version is set by the linker (see the Makefile).
var version string

// versionText is the stamped version, or what the Go tool knows of the build.
func versionText() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return "unknown"
}
