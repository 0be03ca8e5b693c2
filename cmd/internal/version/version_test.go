package version

import (
	"runtime/debug"
	"testing"
)

func TestOf(t *testing.T) {
	const revision = "0123456789abcdef0123456789abcdef01234567"
	info := func(version string, settings ...string) *debug.BuildInfo {
		b := &debug.BuildInfo{Main: debug.Module{Version: version}}
		for i := 0; i < len(settings); i += 2 {
			b.Settings = append(b.Settings, debug.BuildSetting{Key: settings[i], Value: settings[i+1]})
		}
		return b
	}
	for want, b := range map[string]*debug.BuildInfo{
		revision:            info("v0.0.0-2026", "vcs.revision", revision, "vcs.modified", "false"),
		revision + "+dirty": info("v0.0.0-2026+dirty", "vcs.revision", revision, "vcs.modified", "true"),
		"v1.2.3":            info("v1.2.3"),
		"(devel)":           info(""),
	} {
		if got := of(b); got != want {
			t.Errorf("%s, not %s", got, want)
		}
	}
}
