package process

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const long = 30 * time.Second

// shell starts a script of sh.
func shell(t *testing.T, script string) *Process {
	t.Helper()
	p, err := Start("script", exec.Command("sh", "-c", script), filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// says waits until the script has printed a word.
func says(t *testing.T, p *Process, word string) {
	t.Helper()
	err := p.Await(t.Context(), long, func() error {
		if got := p.Tail(1); got != word {
			return fmt.Errorf("it says %q", got)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestStop(t *testing.T) {
	tests := map[string]struct {
		script string
		grace  time.Duration
		want   string // of the error; "" for none
	}{
		"clean":    {`trap "exit 0" TERM; echo ready; while :; do sleep 0.01; done`, long, ""},
		"badly":    {`trap "echo sorry; exit 3" TERM; echo ready; while :; do sleep 0.01; done`, long, "ended badly: exit status 3: ready\nsorry"},
		"stubborn": {`trap "" TERM; echo ready; while :; do sleep 0.01; done`, 100 * time.Millisecond, "does not end within 100ms"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := shell(t, test.script)
			says(t, p, "ready")
			if err := p.Ended(); err != nil {
				t.Fatal(err)
			}
			if err := p.Stop(test.grace); (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("%v, not %q", err, test.want)
			}
			if err := p.Ended(); !errors.Is(err, ErrEnded) {
				t.Errorf("it still runs: %v", err)
			}
		})
	}
}

func TestAwait_ended(t *testing.T) {
	p := shell(t, "echo no such port; exit 3")
	err := p.Await(t.Context(), long, func() error { return errors.New("not yet") })
	if !errors.Is(err, ErrEnded) || !strings.Contains(err.Error(), "exit status 3): no such port") {
		t.Error(err)
	}
	if p = shell(t, "sleep 60"); p.Await(t.Context(), 0, func() error { return errors.New("not yet") }) == nil {
		t.Error("it is ready")
	}
}

// What a program started in its group ends with it.
func TestKill_group(t *testing.T) {
	p := shell(t, "sleep 60 & echo $!; wait")
	var child int
	err := p.Await(t.Context(), long, func() (err error) { child, err = strconv.Atoi(p.Tail(1)); return err })
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Kill(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(long); running(child); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("its child still runs")
		}
	}
}

// running is false for what has ended, reaped or not.
func running(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(text), ") Z ")
}

const parentEnv = "PROCESS_TEST_PARENT"

func TestMain(m *testing.M) {
	if os.Getenv(parentEnv) == "" {
		os.Exit(m.Run())
	}
	cmd := exec.Command("sleep", "60")
	if err := Launch(cmd); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(cmd.Process.Pid)
	_ = cmd.Wait()
}

// A program ends even when the one that started it is killed.
func TestLaunch_parent_is_killed(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	parent := exec.Command(self)
	parent.Env = append(os.Environ(), parentEnv+"=1")
	parent.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdout, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := Launch(parent); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	child, parseErr := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || parseErr != nil {
		t.Fatal(line, err, parseErr)
	}
	if !running(child) {
		t.Fatal("it does not run")
	}
	_ = parent.Process.Kill()
	_ = parent.Wait()
	for end := time.Now().Add(long); running(child); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it runs without the one that started it")
		}
	}
}
