package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bigpipe/cmd/bigpipe/internal/e2e"
)

// The files of TestOperatorsHour: what runs, and what replaces it, with a fault at first.
const (
	runningSite = `pool web {
   lb_mode round_robin
   member 10.1.1.1:80
}
virtual 192.168.200.10:80 {
   use pool web
}
`
	nextSite = `# the shop grows
pool web {
   lb_mode round_robin
   persist_mdoe simple
   simple_timeout 300
   member 10.1.1.1:80
   member 10.1.1.2:80
}
virtual 192.168.200.10:80 {
   use pool web
}
`
)

// TestOperatorsHour is an operator's hour in the shell: a load that is tried, found faulty, mended, loaded with a time limit,
// watched and confirmed; another that nobody confirms; and the way back.
func TestOperatorsHour(t *testing.T) {
	t.Parallel()
	site := newSite(t, runningSite+nextSite)
	if err := site.StartMembers("10.1.1.1:80", "10.1.1.2:80"); err != nil {
		t.Fatal(err)
	}
	start(t, site, "dataplane")
	start(t, site, "mgmtd")
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(site.Dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("running.conf", runningSite)
	write("next.conf", nextSite)
	x := startTerminal(t, site.Command("bigpipe"))
	x.expect(prompt)

	// What is there is loaded; the file's name is completed.
	x.send("load run\t")
	x.expect("load running.conf ")
	if out := x.run(""); strings.Contains(out, "bigpipe:") {
		t.Fatalf("the first load: %q", out)
	}

	// The next file is tried. Its fault is shown where it stands, and nothing changes.
	out := x.run("load --dry-run next.conf")
	for _, want := range []string{"next.conf:4:4:", "persist_mdoe simple", "^~~~", `did you mean "persist_mode"?`} {
		if !strings.Contains(out, want) {
			t.Errorf("the fault lacks %q: %q", want, out)
		}
	}
	// How is it written? The question mark tells, and Tab writes.
	x.send("pool web { persist_m?")
	x.expect("persist_mode")
	x.expect("how returning clients are recognised")
	x.expect(prompt + "pool web { persist_m")
	x.send("\t?")
	x.expect("simple")
	x.expect("sticky")
	x.expect(prompt + "pool web { persist_mode ")
	x.send("\x03")
	x.expect("^C")
	x.expect(prompt)

	// Mended, the file is tried again: the difference.
	write("next.conf", strings.Replace(nextSite, "persist_mdoe", "persist_mode", 1))
	out = x.run("load --dry-run next.conf")
	for _, want := range []string{"+   persist_mode simple", "+   simple_timeout 300", "+   member 10.1.1.2:80"} {
		if !strings.Contains(out, want) {
			t.Errorf("the difference lacks %q: %q", want, out)
		}
	}
	if out := x.run("po web persist show"); strings.Contains(out, "simple") {
		t.Errorf("a dry run changed something: %q", out)
	}

	// Loaded for ten minutes; the prompt says so until it is confirmed.
	out = x.run("load --confirm-within 10m next.conf")
	if !strings.Contains(out, "unless confirmed") || !strings.Contains(out, "[confirm within 9m]") {
		t.Errorf("a load with a time limit: %q", out)
	}
	x.send("watch 0.2 po web sh\r")
	x.expect("every 200ms: pool web show")
	x.expect("10.1.1.2:")
	x.send("q")
	x.expect("[confirm within 9m] " + prompt)
	if place, err := site.Place("192.168.200.10:80"); err != nil {
		t.Error(err)
	} else if reply, err := e2e.Get(place); err != nil || reply.Status != 200 {
		t.Errorf("a request: %v, %v", reply, err)
	}
	if out := x.run("po web pers dump"); !strings.Contains(out, "127.0.0.1") {
		t.Errorf("the records: %q", out)
	}
	x.send("confir\t")
	x.expect("confirm ")
	if out := x.run(""); strings.Contains(out, "[confirm") {
		t.Errorf("after confirm the prompt is %q", out)
	}

	// A statement over several lines, with a fault in it, then without.
	x.send("pool images {\r")
	x.expect(continuation)
	x.send("membr 10.1.1.2:80\r")
	x.expect(continuation)
	if out := x.run("}"); !strings.Contains(out, `did you mean "member"?`) {
		t.Errorf("the fault: %q", out)
	}
	x.send("pool images {\r")
	x.expect(continuation)
	x.send("member 10.1.1.2:80\r")
	x.expect(continuation)
	if out := x.run("}"); strings.Contains(out, ":80") {
		t.Errorf("the pool: %q", out)
	}

	// A load that cuts everything off, and that nobody confirms, goes back by itself.
	write("wrong.conf", "pool lonely { member 10.1.1.1:80 }\n")
	if out := x.run("load --confirm-within 2s wrong.conf"); !strings.Contains(out, "[confirm within") {
		t.Errorf("a short time limit: %q", out)
	}
	x.expect("\r" + prompt) // the prompt is drawn again once nothing waits
	x.eventually("his", "not confirmed in time")
	if out := x.run("virtual show"); !strings.Contains(out, "192.168.200.10") {
		t.Errorf("what was not confirmed is still there: %q", out)
	}

	// Back to the beginning by the history; the command is found again by search.
	if out := x.run("rollback 1"); strings.Contains(out, "bigpipe:") {
		t.Errorf("rollback: %q", out)
	}
	if out := x.run("list pool"); strings.Contains(out, "images") || strings.Contains(out, "10.1.1.2") || !strings.Contains(out, "10.1.1.1:80") {
		t.Errorf("after the rollback: %q", out)
	}
	x.send("\x12dry-r")
	x.expect("load --dry-run next.conf")
	x.send("\r")
	x.expect("+   persist_mode simple")
	x.expect(prompt)
	x.send("exit\r")
	if status := x.end(); status != 0 {
		t.Errorf("exit ends with status %d", status)
	}
	if out := output(t, site, "history"); !strings.Contains(out, "rollback to 1") || !strings.Contains(out, "load next.conf") {
		t.Errorf("history:\n%s", out)
	}
}

// eventually runs a command until it prints text.
func (x *terminal) eventually(command, text string) {
	x.t.Helper()
	out := ""
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		if out = x.run(command); strings.Contains(out, text) {
			return
		}
	}
	x.t.Errorf("%s does not print %q: %q", command, text, out)
}
