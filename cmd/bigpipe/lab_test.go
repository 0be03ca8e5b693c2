package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"bigpipe/cmd/bigpipe/internal/e2e"
)

// labConfig returns a configuration whose ports are free where the lab puts them.
func labConfig(t *testing.T) (text string, virtual, member string) {
	t.Helper()
	port := func(host string) int {
		listener, err := net.Listen("tcp", host+":0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		return listener.Addr().(*net.TCPAddr).Port
	}
	virtual, member = fmt.Sprintf("192.168.200.10:%d", port("127.10.0.1")), fmt.Sprintf("10.1.1.1:%d", port("127.20.0.1"))
	text = fmt.Sprintf("interface exp0 dest enable\npool web { persist_mode cookie cookie_mode insert member %s }\nvip %s { use pool web }\n", member, virtual)
	return text, virtual, member
}

// startLab starts the lab without a terminal and returns its table of virtual servers and its processes.
func startLab(t *testing.T, site *e2e.Site, text string) (lab *exec.Cmd, table string, children []int) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(site.Dir, "bigip.conf"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	lab = site.Command("bigpipe", "lab", "bigip.conf")
	lab.Env = append(lab.Env, "TMPDIR="+site.Dir)
	stderr, err := os.Create(filepath.Join(site.Dir, "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer stderr.Close()
	lab.Stderr = stderr
	stdout, err := lab.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := e2e.Start(lab); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lab.Process.Kill() })
	for r := bufio.NewReader(stdout); ; {
		line, err := r.ReadString('\n')
		if err != nil {
			t.Fatalf("the lab ended: %v\n%s%s", err, table, contents(t, stderr.Name()))
		}
		if strings.HasPrefix(line, "Ctrl-C") {
			go io.Copy(io.Discard, r)
			break
		}
		table += line
	}
	if report := contents(t, stderr.Name()); !strings.Contains(report, "interface: 1 statement kept, not in effect") {
		t.Errorf("the report of the load is missing: %q", report)
	}
	children = childrenOf(t, lab.Process.Pid)
	if len(children) != 3 {
		t.Errorf("the lab has %d processes, not mgmtd, a dataplane and the members", len(children))
	}
	return lab, table, children
}

func contents(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// childrenOf returns the processes that a process has started and that still run.
func childrenOf(t *testing.T, parent int) []int {
	t.Helper()
	paths, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	var children []int
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		_, rest, _ := strings.Cut(string(text), ") ") // after the name: state, parent
		fields := strings.Fields(rest)
		if len(fields) < 2 || fields[0] == "Z" || fields[1] != strconv.Itoa(parent) {
			continue
		}
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if err != nil {
			t.Fatal(err)
		}
		children = append(children, pid)
	}
	return children
}

// ended waits until none of the processes runs.
func ended(t *testing.T, pids []int) {
	t.Helper()
	for _, pid := range pids {
		for deadline := time.Now().Add(20 * time.Second); syscall.Kill(pid, 0) == nil && !zombie(pid); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Errorf("process %d still runs", pid)
				break
			}
		}
	}
}

// zombie tells whether a process has ended and only waits for its parent to look.
func zombie(pid int) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || strings.Contains(string(text), ") Z ")
}

func TestLab(t *testing.T) {
	t.Parallel()
	text, virtual, member := labConfig(t)
	site := newSite(t, "")
	lab, table, children := startLab(t, site, text)
	var url string
	for line := range strings.Lines(table) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == virtual {
			url = fields[1]
		}
	}
	if !strings.Contains(table, "pool web, persist cookie") || !strings.HasPrefix(url, "http://127.10.0.1:") {
		t.Fatalf("no virtual server %s in the table:\n%s", virtual, table)
	}
	response, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var page struct {
		Node    string
		Pool    []string
		Request struct{ Method, URI string }
	}
	if err := json.NewDecoder(response.Body).Decode(&page); err != nil {
		t.Fatal(err)
	}
	if page.Node != member || len(page.Pool) != 1 || page.Pool[0] != "web" || page.Request.Method != http.MethodGet || page.Request.URI != "/" {
		t.Errorf("the member answers %+v", page)
	}
	if cookies := response.Cookies(); len(cookies) != 1 || cookies[0].Name != "BIGipServerweb" {
		t.Errorf("cookies: %v", cookies)
	}
	if out := output(t, site, "list"); !strings.Contains(out, "pool web") {
		t.Errorf("the lab's mgmtd lists:\n%s", out)
	}
	if err := lab.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := lab.Wait(); err != nil {
		t.Errorf("the lab ends with %v", err)
	}
	for _, pid := range children {
		if syscall.Kill(pid, 0) == nil {
			t.Errorf("process %d still runs", pid)
		}
	}
	if left, err := filepath.Glob(filepath.Join(site.Dir, "bigpipe-lab-*")); err != nil || len(left) > 0 {
		t.Errorf("the lab leaves %v (%v)", left, err)
	}
}

func TestLabKilled(t *testing.T) {
	t.Parallel()
	text, _, _ := labConfig(t)
	lab, _, children := startLab(t, newSite(t, ""), text)
	if err := lab.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = lab.Wait()
	ended(t, children)
}

func TestLabRefusesFaultyFile(t *testing.T) {
	t.Parallel()
	site := newSite(t, "")
	if err := os.WriteFile(filepath.Join(site.Dir, "bigip.conf"), []byte("vip 192.168.200.10:80 { use pool wbe }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := site.Command("bigpipe", "lab", "bigip.conf")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	_ = cmd.Run()
	if status := cmd.ProcessState.ExitCode(); status != 2 || !strings.HasPrefix(stderr.String(), "bigip.conf:1:34: ") {
		t.Errorf("status %d, stderr:\n%s", status, stderr.String())
	}
}
