// Package version tells what a program was built from.
package version

import "runtime/debug"

// String returns the revision of the source, with "+dirty" where the source had changes that no revision holds; without one
// the release; without that "(devel)".
func String() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return devel
	}
	return of(info)
}

const devel = "(devel)"

func of(info *debug.BuildInfo) string {
	settings := map[string]string{}
	for _, s := range info.Settings {
		settings[s.Key] = s.Value
	}
	switch revision := settings["vcs.revision"]; {
	case revision != "" && settings["vcs.modified"] == "true":
		return revision + "+dirty"
	case revision != "":
		return revision
	case info.Main.Version != "":
		return info.Main.Version
	}
	return devel
}
