package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/rogpeppe/go-internal/txtar"

	"bigpipe/cmd/bigpipe/internal/e2e"
)

// startShell runs mgmtd and a dataplane with a pool web and returns a shell on them.
func startShell(t *testing.T) (*e2e.Site, *terminal) {
	t.Helper()
	site := newSite(t, "10.1.1.1:80 10.1.1.2:80 192.168.200.10:80")
	start(t, site, "dataplane")
	start(t, site, "mgmtd")
	output(t, site, "pool", "web", "{", "member", "10.1.1.1:80", "}")
	x := startTerminal(t, site.Command("bigpipe"))
	x.expect(prompt)
	return site, x
}

func TestShell(t *testing.T) {
	t.Parallel()
	site, x := startShell(t)

	// Tab completes a command and the name of a pool; what came out is a command that works.
	x.send("poo\t")
	x.expect("pool ")
	x.send("we\t")
	x.expect("web ")
	if out := x.run("lb_mode show"); !strings.Contains(out, "round_robin") {
		t.Errorf("the completed command prints %q", out)
	}

	// A statement over two lines.
	x.send("pool two {\r")
	x.expect(continuation)
	if out := x.run("member 10.1.1.2:80 }"); strings.Contains(out, ":") {
		t.Errorf("a change prints %q", out)
	}
	if out := output(t, site, "list"); !strings.Contains(out, "10.1.1.2:80") {
		t.Errorf("the statement of two lines was not executed:\n%s", out)
	}

	// A fault is reported and the shell goes on.
	if out := x.run("pool three { membr 10.1.1.1:80 }"); !strings.Contains(out, `did you mean "member"?`) {
		t.Errorf("a fault prints %q", out)
	}
	// Ctrl-C drops the line and a statement that is open; the shell goes on.
	x.send("pool four {\r")
	x.expect(continuation)
	x.send("\x03")
	x.expect(prompt)
	x.send("half a line\x03")
	x.expect("^C")
	x.expect(prompt)

	// The arrow goes back in history.
	if out := x.run("pool two lb_mode show"); !strings.Contains(out, "round_robin") {
		t.Errorf("a query prints %q", out)
	}
	x.send("\x1b[A")
	x.expect("pool two lb_mode show")
	if out := x.run(""); !strings.Contains(out, "round_robin") {
		t.Errorf("the command of the history prints %q", out)
	}
	x.send("exit\r")
	if status := x.end(); status != 0 {
		t.Errorf("exit ends with status %d", status)
	}

	// The next shell knows the history.
	next := startTerminal(t, site.Command("bigpipe"))
	next.expect(prompt)
	next.send("\x1b[A")
	next.expect("pool two lb_mode show")
	next.send("\x03")
	next.expect("^C")
	next.expect(prompt)
	next.send("\x04") // the end of input
	if status := next.end(); status != 0 {
		t.Errorf("the end of input ends with status %d", status)
	}
	if out := output(t, site, "list"); strings.Contains(out, "pool four") || strings.Contains(out, "pool three") {
		t.Errorf("what was interrupted or faulty was executed:\n%s", out)
	}
}

// TestShellSurvivesMgmtd loses mgmtd and finds it again within one shell.
func TestShellSurvivesMgmtd(t *testing.T) {
	t.Parallel()
	site, x := startShell(t)
	if err := site.KillDaemon("mgmtd"); err != nil {
		t.Fatal(err)
	}
	if out := x.run("pool web lb_mode show"); !strings.Contains(out, "not reachable") {
		t.Errorf("without mgmtd a query prints %q", out)
	}
	start(t, site, "mgmtd")
	deadline := time.Now().Add(20 * time.Second)
	for !strings.Contains(x.run("pool web lb_mode show"), "round_robin") {
		if time.Now().After(deadline) {
			t.Fatal("the shell does not reach mgmtd again")
		}
	}
}

// TestShellSeed002 enters the commands of rule B-T16 in the shell.
func TestShellSeed002(t *testing.T) {
	t.Parallel()
	archive, err := txtar.ParseFile(filepath.Join("testdata", "B-T16_every_command.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, f := range archive.Files {
		files[f.Name] = string(f.Data)
	}
	site := newSite(t, files["seed002"])
	start(t, site, "dataplane")
	start(t, site, "mgmtd")
	x := startTerminal(t, site.Command("bigpipe"))
	x.expect(prompt)
	for command := range strings.Lines(files["seed002"]) {
		if out := x.run(strings.TrimSpace(command)); strings.Contains(out, "error") {
			t.Errorf("%s prints %q", command, out)
		}
	}
	if got, want := output(t, site, "list"), files["want.conf"]; got != want {
		t.Errorf("configuration:\n%s\nwant:\n%s", got, want)
	}
}

// TestShell_keys presses Tab, ? and Ctrl-R.
func TestShell_keys(t *testing.T) {
	t.Parallel()
	site, x := startShell(t)
	output(t, site, "pool", "work", "{", "member", "10.1.1.2:80", "}")
	if err := os.WriteFile(filepath.Join(site.Dir, "my site.conf"), []byte("pool web { member 10.1.1.1:80 }\n"), 0o600); err != nil {
		t.Fatal(err)
	}

	// Tab lists what there is to choose, after what is common to it; the line stays.
	x.send("pool w\t")
	x.expect("web   work\r\n")
	x.expect(prompt + "pool w")
	x.send("o\t")
	x.expect("work ")
	// A question mark tells what can follow, in the middle of a word as well; the line stays.
	x.send("pers?")
	x.expect("persist")
	x.expect("persistence settings, then the records")
	x.expect(prompt + "pool work pers")
	x.send("\tdump ?")
	x.expect("client")
	x.expect("ENTER")
	x.expect("run the command")
	x.expect(prompt + "pool work persist dump ")
	if out := x.run(""); !strings.Contains(out, "POOL") {
		t.Errorf("the line that was completed prints %q", out)
	}
	// In quotes and in -? a question mark is text.
	x.send(`rule r { if ( http_uri contains "?" ) { use ( web ) } }`)
	if out := x.run(""); strings.Contains(out, "http_uri") || strings.Contains(out, ":") {
		t.Errorf("a rule with a question mark prints %q", out)
	}
	if out := x.run("pool -?"); !strings.Contains(out, "Attributes:") {
		t.Errorf("pool -? prints %q", out)
	}
	if out := x.run("help"); !strings.Contains(out, "COMMAND -? tells more") || !strings.Contains(out, "Ctrl-R") {
		t.Errorf("help prints %q", out)
	}
	// Names of files, with blanks too.
	x.send("pool two { member 10.1.1.1\t")
	x.expect("10.1.1.1:80 ")
	x.send("\x15") // the line is dropped
	x.send("merge my\t")
	x.expect(`"my site.conf" `)
	if out := x.run(""); strings.Contains(out, "bigpipe:") {
		t.Errorf("the file that was completed: %q", out)
	}

	// Beginnings of words.
	if out := x.run("po web sh"); !strings.Contains(out, "10.1.1.1:") {
		t.Errorf("po web sh prints %q", out)
	}
	if out := x.run("con"); !strings.Contains(out, `"con" may be config, configsync, confirm, conn`) || !strings.Contains(out, "connections") {
		t.Errorf("con prints %q", out)
	}

	// Ctrl-R finds an earlier command, and Ctrl-C leaves the search alone.
	x.send("\x12")
	x.expect("bck-i-search")
	x.send("lb_mo\x03")
	x.send("\x12pers")
	x.expect("pool work persist dump")
	x.send("\r")
	x.expect("CONNECTIONS")
	x.expect(prompt)
	x.send("\x1b[A")
	x.expect("pool work persist dump")
	x.send("\x03")
	x.expect(prompt)
	x.send("exit\r")
	if status := x.end(); status != 0 {
		t.Errorf("exit ends with status %d", status)
	}
	info, err := os.Stat(filepath.Join(site.Dir, ".bigpipe_history"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the history is %v, %v; only its owner may read it", info.Mode(), err)
	}
}

// TestShell_paste pastes a line of 20,000 characters, lines of a statement with tabs in them, and types on: nothing is drawn for each
// of the characters.
func TestShell_paste(t *testing.T) {
	t.Parallel()
	site, x := startShell(t)
	var hosts strings.Builder
	for i := range 1200 {
		fmt.Fprintf(&hosts, "host 10.7.%d.%d ", i>>8, i&255)
	}
	drawn := len(x.raw())
	if out := x.run("class long { " + hosts.String() + "}"); strings.Contains(out, "bigpipe:") {
		t.Errorf("the long line prints %.300q", out)
	}
	if n := len(x.raw()) - drawn; n > 400_000 {
		t.Errorf("%d bytes are drawn for a line of %d", n, hosts.Len())
	}
	x.send("pool pasted {\n\tmember\t10.1.1.7:80\tratio\t2\t# what is it?\n\tmember 10.1.1.8:80 ratio 3\n}\n")
	x.expect("}")
	x.expect(prompt)
	if got := output(t, site, "list", "class", "long"); strings.Count(got, "host") != 1200 {
		t.Errorf("the class has %d hosts", strings.Count(got, "host"))
	}
	if got := output(t, site, "list", "pool", "pasted"); !strings.Contains(got, "member 10.1.1.7:80 ratio 2") || !strings.Contains(got, "member 10.1.1.8:80 ratio 3") {
		t.Errorf("the pool is\n%s", got)
	}
	x.send("exit\r")
	x.end()
}

// TestShell_suspend stops the shell by Ctrl-Z and goes on, and clears the screen by Ctrl-L.
func TestShell_suspend(t *testing.T) {
	t.Parallel()
	site := newSite(t, "")
	start(t, site, "mgmtd")
	bash, err := exec.LookPath("bash")
	if err != nil {
		skipWithout(t, "bash")
	}
	cmd := site.Command("bigpipe")
	cmd.Path, cmd.Args = bash, []string{"bash", "--norc", "--noprofile", "-i"}
	cmd.Env = append(cmd.Env, "PATH="+programs+":"+os.Getenv("PATH"), "PS1=ready> ")
	x := startTerminal(t, cmd)
	x.expect("ready> ")
	x.send("bigpipe\r")
	x.expect(prompt)
	x.send("hist\x1a")
	x.expect("Stopped")
	x.expect("ready> ")
	x.send("echo still ''here\r")
	x.expect("still here")
	x.send("fg\r")
	x.expect(prompt + "hist")
	x.send("\x0c")
	x.expect(prompt + "hist")
	if !strings.Contains(x.raw(), "\x1b[H\x1b[2J") {
		t.Error("Ctrl-L does not clear the screen")
	}
	x.send("\r")
	x.expect("REVISION")
	x.expect(prompt)
	x.send("exit\r")
	x.expect("ready> ")
	x.send("exit $?\r")
	if status := x.end(); status != 0 {
		t.Errorf("status %d", status)
	}
}

// TestShell_state shows in the prompt what waits to be confirmed and who is away.
func TestShell_state(t *testing.T) {
	t.Parallel()
	site, x := startShell(t)
	if err := os.WriteFile(filepath.Join(site.Dir, "new.conf"), []byte("pool web { member 10.1.1.2:80 }\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	x.run("load --confirm-within 90m new.conf")
	if out := x.run("pool web lb_mode show"); !strings.Contains(out, "[confirm within 89m]") {
		t.Errorf("while a change waits the screen shows %q", out)
	}
	if out := x.run("confirm"); strings.Contains(out, "[") {
		t.Errorf("after confirm the screen shows %q", out)
	}
	// The prompt follows the state while nothing is typed; what is typed stays.
	x.send("pool we")
	if err := site.KillDaemon("dataplane"); err != nil {
		t.Fatal(err)
	}
	x.expect("[dataplane away] " + prompt + "pool we")
	start(t, site, "dataplane")
	x.expect("\r" + prompt + "pool we")
	if err := site.KillDaemon("mgmtd"); err != nil {
		t.Fatal(err)
	}
	x.expect("[mgmtd away] " + prompt + "pool we")
}

// TestShell_state_never_waits has a mgmtd that accepts connections and says nothing.
func TestShell_state_never_waits(t *testing.T) {
	t.Parallel()
	site := newSite(t, "")
	silent, err := net.Listen("unix", strings.TrimPrefix(site.Address(), "unix://"))
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	x := startTerminal(t, site.Command("bigpipe"))
	x.expect("[mgmtd does not answer] " + prompt)
	x.send("exit\r")
	if status := x.end(); status != 0 {
		t.Errorf("exit ends with status %d", status)
	}
}

// TestPager has output that is longer than the screen, and one that is not.
func TestPager(t *testing.T) {
	t.Parallel()
	site := newSite(t, "10.1.1.1:80")
	start(t, site, "mgmtd")
	onScreen := func(t *testing.T, pager string, args ...string) *terminal {
		cmd := site.Command("bigpipe", args...)
		cmd.Env = append(cmd.Env, "PAGER="+pager)
		return startScreen(t, cmd, pty.Winsize{Rows: 20, Cols: 80})
	}
	for test, c := range map[string]struct {
		pager string
		args  []string
		want  string
	}{
		"long":         {"sed s/^/paged:/", []string{"pool", "-?"}, "paged:  pool POOL"},
		"short":        {"sed s/^/paged:/", []string{"-v"}, "\nbigpipe "},
		"switched off": {"", []string{"pool", "-?"}, "\n  pool POOL"},
		"cat":          {"cat", []string{"pool", "-?"}, "\n  pool POOL"},
		"not there":    {"no-such-pager-here -x", []string{"pool", "-?"}, "\n  pool POOL"},
	} {
		t.Run(test, func(t *testing.T) {
			x := onScreen(t, c.pager, c.args...)
			x.wait(strings.TrimPrefix(c.want, "\n"))
			if status := x.end(); status != 0 {
				t.Errorf("status %d", status)
			}
			if c.want[0] == '\n' && strings.Contains(x.all(), "paged:") {
				t.Errorf("went through the pager:\n%s", x.all())
			}
		})
	}
	// A pager that is left early is no fault; neither are colours when NO_COLOR is set.
	x := onScreen(t, "head -1; read line < /dev/tty; echo left", "pool", "-?")
	x.expect("pool: ")
	x.send("\r")
	x.expect("left")
	if status := x.end(); status != 0 {
		t.Errorf("status %d after the pager was left", status)
	}
	// A pipe has no pager.
	cmd := site.Command("bigpipe", "help")
	cmd.Env = append(cmd.Env, "PAGER=false")
	if out, err := cmd.Output(); err != nil || len(out) < 500 {
		t.Errorf("into a pipe: %d bytes, %v", len(out), err)
	}
}

// TestNoColor asks for a fault with and without colours.
func TestNoColor(t *testing.T) {
	t.Parallel()
	site := newSite(t, "")
	for _, no := range []string{"", "1"} {
		cmd := site.Command("bigpipe", "-d", "pool", "p", "{", "membr", "}")
		cmd.Env = append(cmd.Env, "NO_COLOR="+no)
		x := startTerminal(t, cmd)
		x.expect("did you mean")
		if status := x.end(); status != exitUsage {
			t.Errorf("status %d", status)
		}
		if colours := strings.Contains(x.raw(), "\x1b["); colours != (no == "") {
			t.Errorf("NO_COLOR=%s: %q", no, x.raw())
		}
	}
}

func TestWatch(t *testing.T) {
	t.Parallel()
	site, x := startShell(t)

	// In the shell, until a key is pressed.
	x.send("watch 0.2 pool web show\r")
	x.expect("every 200ms: pool web show")
	x.expect("10.1.1.1:")
	output(t, site, "pool", "web", "add", "{", "member", "10.1.1.2:80", "}")
	x.expect("10.1.1.2:")
	x.send("q")
	x.expect(prompt)
	// Ctrl-C ends it as well, and not the shell.
	x.send("wat virt sh\r")
	x.expect("every 2s: virtual show")
	x.send("\x03")
	x.expect(prompt)
	if out := x.run("watch pool web delete"); !strings.Contains(out, "what only prints") {
		t.Errorf("watching a change prints %q", out)
	}
	if out := x.run("watch 2 pool web shwo"); !strings.Contains(out, "shwo") || strings.Contains(out, "every") {
		t.Errorf("watching a fault prints %q", out)
	}
	if out := x.run("pool web lb_mode show"); !strings.Contains(out, "round_robin") {
		t.Errorf("after a watch the keyboard is not what it was: %q", out)
	}

	// One command on a terminal.
	one := startTerminal(t, site.Command("bigpipe", "watch", "0.2", "pool", "web", "show"))
	one.expect("10.1.1.2:")
	one.expect("every")
	one.send(" ")
	if status := one.end(); status != 0 {
		t.Errorf("a key ends it with status %d", status)
	}
	// And in a pipe, where each round is printed below the last.
	cmd := site.Command("bigpipe", "watch", "0.1", "pool web lb_mode show")
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := e2e.Start(cmd); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(pipe)
	for seen := 0; seen < 3 && lines.Scan(); {
		if strings.Contains(lines.Text(), "round_robin") {
			seen++
		}
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, pipe); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("an interrupt ends it with %v", err)
	}
}
