// Package browser drives a headless Chromium for tests, by the DevTools protocol over two pipes.
package browser

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"bigpipe/cmd/internal/process"
)

// patience bounds every wait for the browser.
const patience = 60 * time.Second

// Find returns the path of a program that is such a browser.
func Find() (string, error) {
	path, err := exec.LookPath("chromium-headless-shell")
	if err != nil {
		path, err = exec.LookPath("chromium")
	}
	return path, err
}

// Cookie is a cookie that the browser keeps.
type Cookie struct {
	Name, Value, Domain, Path string
	// Session: it ends with the browser.
	Session          bool
	HTTPOnly, Secure bool
}

// Browser is a running browser with one page. It is used by one goroutine at a time.
type Browser struct {
	process *process.Process
	in, out *os.File // commands to it, and what it says
	reader  *bufio.Reader
	session string // of the page
	last    int    // number of the last command
}

// Start starts the program with a profile, a folder that holds its cookies and is made if it is not there. Hosts are the names
// that it can resolve; loopback is all that it can reach.
func Start(program, profile string, hosts map[string]netip.Addr) (*Browser, error) {
	theirIn, in, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer theirIn.Close()
	out, theirOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, in.Close())
	}
	defer theirOut.Close()
	b := &Browser{in: in, out: out, reader: bufio.NewReaderSize(out, 1<<16)}
	cmd := exec.Command(program, arguments(profile, hosts)...)
	cmd.ExtraFiles = []*os.File{theirIn, theirOut} // 3 and 4, where the protocol wants them
	if err := os.MkdirAll(profile, 0o700); err != nil {
		return nil, errors.Join(err, b.closePipes())
	}
	if b.process, err = process.Start("browser", cmd, filepath.Join(profile, "output.log")); err != nil {
		return nil, errors.Join(err, b.closePipes())
	}
	if err := b.openPage(); err != nil {
		return nil, errors.Join(fmt.Errorf("%w; its output: %s", err, b.process.Tail(5)), b.kill())
	}
	return b, nil
}

func arguments(profile string, hosts map[string]netip.Addr) []string {
	var rules []string
	for name, addr := range hosts {
		rules = append(rules, fmt.Sprintf("MAP %s %s", name, addr))
	}
	slices.Sort(rules)
	rules = append(rules, "MAP * ~NOTFOUND", "EXCLUDE 127.*")
	return []string{
		"--headless", "--remote-debugging-pipe", "--user-data-dir=" + profile, "--no-sandbox", "--no-first-run", "--disable-gpu",
		"--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update", "--disable-sync",
		"--no-proxy-server", "--host-resolver-rules=" + strings.Join(rules, ","),
	}
}

// openPage opens the page and has its events told.
func (b *Browser) openPage() error {
	var target struct{ TargetID string }
	if err := b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target); err != nil {
		return err
	}
	var attached struct{ SessionID string }
	err := b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	if err != nil {
		return err
	}
	b.session = attached.SessionID
	if err := b.call("Page.enable", nil, nil); err != nil {
		return err
	}
	return b.call("Page.setLifecycleEventsEnabled", map[string]any{"enabled": true}, nil)
}

// message is what the browser says: the answer to a command, or an event.
type message struct {
	ID     int
	Method string
	Params json.RawMessage
	Result json.RawMessage
	Error  *struct{ Message string }
}

// send sends a command.
func (b *Browser) send(method string, params any) error {
	b.last++
	command := map[string]any{"id": b.last, "method": method}
	if params != nil {
		command["params"] = params
	}
	if b.session != "" {
		command["sessionId"] = b.session
	}
	text, err := json.Marshal(command)
	if err != nil {
		return err
	}
	if err := b.in.SetWriteDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	_, err = b.in.Write(append(text, 0))
	return err
}

// next reads a message.
func (b *Browser) next() (m message, err error) {
	if err := b.out.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return m, err
	}
	text, err := b.reader.ReadBytes(0)
	if err != nil {
		return m, err
	}
	return m, json.Unmarshal(text[:len(text)-1], &m)
}

// call carries out a command. Events that come meanwhile are nobody's.
func (b *Browser) call(method string, params, result any) error {
	if err := b.send(method, params); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	for {
		m, err := b.next()
		if err != nil {
			return fmt.Errorf("%s: %w", method, err)
		}
		if m.ID == b.last {
			return m.answer(method, result)
		}
	}
}

// answer is the result of a command.
func (m *message) answer(method string, result any) error {
	if m.Error != nil {
		return fmt.Errorf("%s: %s", method, m.Error.Message)
	}
	if result == nil {
		return nil
	}
	return json.Unmarshal(m.Result, result)
}

// Load loads a page, and returns when all that belongs to it is there.
func (b *Browser) Load(url string) error {
	if err := b.send("Page.navigate", map[string]any{"url": url}); err != nil {
		return err
	}
	loader, loaded := "", map[string]bool{}
	for loader == "" || !loaded[loader] {
		m, err := b.next()
		if err != nil {
			return fmt.Errorf("load %s: %w", url, err)
		}
		switch {
		case m.ID == b.last:
			var begun struct{ LoaderID, ErrorText string }
			if err := m.answer("Page.navigate", &begun); err != nil {
				return err
			}
			if begun.ErrorText != "" || begun.LoaderID == "" {
				return fmt.Errorf("load %s: %s", url, begun.ErrorText)
			}
			loader = begun.LoaderID
		case m.Method == "Page.lifecycleEvent":
			var event struct{ LoaderID, Name string }
			if err := json.Unmarshal(m.Params, &event); err != nil {
				return err
			}
			if event.Name == "load" {
				loaded[event.LoaderID] = true
			}
		}
	}
	return nil
}

// Evaluate runs a script on the page, waits for what it promises, and reads the value.
func (b *Browser) Evaluate(script string, value any) error {
	var got struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct{ Text string }
	}
	err := b.call("Runtime.evaluate", map[string]any{"expression": script, "awaitPromise": true, "returnByValue": true}, &got)
	if err != nil {
		return err
	}
	if got.ExceptionDetails != nil {
		return fmt.Errorf("%s: %s", script, got.ExceptionDetails.Text)
	}
	return json.Unmarshal(got.Result.Value, value)
}

// Cookies returns what the browser keeps.
func (b *Browser) Cookies() ([]Cookie, error) {
	var got struct{ Cookies []Cookie }
	err := b.call("Storage.getCookies", nil, &got)
	return got.Cookies, err
}

// Forget removes what the browser keeps, so that it sends no cookies with what is loaded next.
func (b *Browser) Forget() error { return b.call("Storage.clearCookies", nil, nil) }

// Close ends the browser as its user would: what has to last is written to the profile.
func (b *Browser) Close() error {
	b.session = ""
	err := b.call("Browser.close", nil, nil)
	select {
	case <-b.process.Done():
	case <-time.After(patience):
		err = errors.Join(err, errors.New("the browser does not end"))
	}
	return errors.Join(err, b.kill())
}

// kill ends what is left.
func (b *Browser) kill() error { return errors.Join(b.process.Kill(), b.closePipes()) }

func (b *Browser) closePipes() error { return errors.Join(b.in.Close(), b.out.Close()) }
