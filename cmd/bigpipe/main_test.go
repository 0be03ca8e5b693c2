package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"bigpipe/cmd/bigpipe/internal/e2e"
	"bigpipe/cmd/internal/build"
)

// programs is the folder of the programs that the tests run.
var programs string

// programsVariable is where the programs are for a test that runs in a process of its own.
const programsVariable = "BIGPIPE_TEST_PROGRAMS"

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

func testMain(m *testing.M) int {
	if address := os.Getenv(memberVariable); address != "" {
		fmt.Fprintln(os.Stderr, serveMember(address))
		return 1
	}
	if programs = os.Getenv(programsVariable); programs != "" {
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "bigpipe-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if err := build.Programs(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	programs = dir
	if err := os.Setenv(programsVariable, dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// TestScripts runs testdata/*.txtar; UPDATE=1 rewrites what they compare with.
func TestScripts(t *testing.T) {
	examples, err := filepath.Abs("../../examples")
	if err != nil {
		t.Fatal(err)
	}
	e2e.Scripts(t, "testdata", programs, examples, os.Getenv("UPDATE") == "1")
}
