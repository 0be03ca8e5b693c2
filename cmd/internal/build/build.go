// Package build builds the real programs for tests that run them.
package build

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
)

// Programs builds bigpipe, mgmtd and dataplane into dir, with the race detector if the caller has it, and installs bigpipe
// under its other names too.
func Programs(dir string) error {
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	if err := noteSources(root); err != nil {
		return err
	}
	args := []string{"build", "-o", dir + string(filepath.Separator)}
	if withRace() {
		args = append(args, "-race")
	}
	cmd := exec.Command("go", append(args, "./cmd/bigpipe", "./cmd/mgmtd", "./cmd/dataplane")...)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the programs: %w\n%s", err, out)
	}
	for _, name := range []string{"b", "sysctl"} {
		if err := os.Symlink("bigpipe", filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// moduleRoot is the nearest folder above the working directory that has a go.mod.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", fmt.Errorf("no go.mod above %s", dir)
		}
		dir = parent
	}
}

// noteSources looks at every folder with Go code, so that go test runs again when a program changed: it remembers what a
// test itself looks at, but not what go build reads.
func noteSources(root string) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != root {
			return filepath.SkipDir
		}
		return err
	})
}

func withRace() bool {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return false
	}
	for _, s := range info.Settings {
		if s.Key == "-race" {
			return s.Value == "true"
		}
	}
	return false
}
