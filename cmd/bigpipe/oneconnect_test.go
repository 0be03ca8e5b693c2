package main

import (
	"bufio"
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"bigpipe/cmd/bigpipe/internal/browser"
	"bigpipe/cmd/bigpipe/internal/e2e"
)

// TestMaxSize: two connections are opened for two requests at once, one of them is kept, and a third request uses it (O-T10).
func TestMaxSize(t *testing.T) {
	const conf = "pool web { persist_mode cookie member 10.1.1.1:80 }\n" +
		"virtual 192.168.200.10:80 { use pool web oneconnect enable oneconnect_max_size 1 }\n"
	site := newSite(t, conf)
	if err := site.StartMembers("10.1.1.1:80"); err != nil {
		t.Fatal(err)
	}
	start(t, site, "dataplane")
	start(t, site, "mgmtd")
	loadText(t, site, conf)
	member, err := site.Member("10.1.1.1:80")
	if err != nil {
		t.Fatal(err)
	}
	place, err := site.Place("192.168.200.10:80")
	if err != nil {
		t.Fatal(err)
	}
	ask := func() {
		if reply, err := e2e.Get(place); err != nil || reply.Status != 200 || len(reply.SetCookie) != 1 {
			t.Errorf("reply %v, %v", reply, err)
		}
	}
	// The first of two is not answered before the second has come, so that neither can use the other's connection.
	member.Behave(e2e.Answer, time.Second)
	var two sync.WaitGroup
	two.Go(ask)
	two.Go(ask)
	two.Wait()
	member.Behave(e2e.Answer, 0)
	for range 3 {
		ask()
	}
	if n := member.Accepted(); n != 2 {
		t.Errorf("%d connections to the member, want 2", n)
	}
}

// TestIPv6Member: a member with an IPv6 address is named in its own form, and found again (O-T17).
func TestIPv6Member(t *testing.T) {
	const conf = "pool web { persist_mode cookie member [::1]:8080 member 10.1.1.1:80 }\nvirtual 192.168.200.10:80 { use pool web oneconnect enable }\n"
	site := newSite(t, "192.168.200.10:80 10.1.1.1:80")
	if err := site.StartMembers("10.1.1.1:80"); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "[::1]:8080") }))
	defer server.Close()
	if err := site.StartDaemon("dataplane", "--map", "[::1]:8080="+server.Listener.Addr().String()); err != nil {
		t.Fatal(err)
	}
	start(t, site, "mgmtd")
	loadText(t, site, conf)
	c, to := newCurl(t, "jar"), url(t, site, "192.168.200.10:80")
	body, set := c.get(to)
	if want := "Set-Cookie: BIGipServerweb=vi00000000000000000000000000000001.36895; path=/"; body != "[::1]:8080" || len(set) != 1 || set[0] != want {
		t.Errorf("answered by %s with %q, want %q", body, set, want)
	}
	for range 3 {
		c.wants(to, "[::1]:8080", false)
	}
}

// TestWebSocket: a browser's WebSocket reaches the member of its page, and is never shared: two are two connections (O-T13).
func TestWebSocket(t *testing.T) {
	program := peerProgram(t, browser.Find, "chromium-headless-shell")
	members := []string{"10.1.1.1:80", "10.1.1.2:80"}
	conf := "pool web { persist_mode cookie member 10.1.1.1:80 member 10.1.1.2:80 }\nvirtual 192.168.200.10:80 { use pool web oneconnect enable }\n"
	site := newSite(t, conf)
	var mu sync.Mutex
	tunnels := map[string]bool{} // by the connection
	for _, member := range members {
		place, err := site.Place(member)
		if err != nil {
			t.Fatal(err)
		}
		listener, err := net.Listen("tcp", place.String())
		if err != nil {
			t.Fatal(err)
		}
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Upgrade") == "" {
				w.Header().Set("Content-Type", "text/html")
				fmt.Fprint(w, `<!doctype html><link rel="icon" href="data:,">`, member)
				return
			}
			mu.Lock()
			tunnels[r.RemoteAddr] = true
			mu.Unlock()
			if err := greet(w, r, member); err != nil {
				t.Errorf("WebSocket of %s: %v", member, err)
			}
		})}
		go func() { _ = server.Serve(listener) }() // it ends with the server
		t.Cleanup(func() { server.Close() })
	}
	start(t, site, "dataplane")
	start(t, site, "mgmtd")
	loadText(t, site, conf)

	b, err := browser.Start(program, profileDir(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	to := url(t, site, "192.168.200.10:80")
	if err := b.Load(to + "/"); err != nil {
		t.Fatal(err)
	}
	var page string
	if err := b.Evaluate("document.body.innerText", &page); err != nil {
		t.Fatal(err)
	}
	script := `new Promise((done, failed) => {
		const s = new WebSocket("ws" + location.origin.slice(4) + "/");
		s.onmessage = m => { s.close(); done(m.data) };
		s.onerror = () => failed("failed");
	})`
	for range 3 {
		var got string
		if err := b.Evaluate(script, &got); err != nil || got != "hello from "+page {
			t.Errorf("the page is %s, the WebSocket says %q, %v", page, got, err)
		}
		if err := b.Evaluate(`fetch("/").then(r => r.text())`, &got); err != nil || !strings.HasSuffix(got, ">"+page) {
			t.Errorf("the page is %s, another one %q, %v", page, got, err)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if len(tunnels) != 3 {
		t.Errorf("three WebSockets came on %d connections", len(tunnels))
	}
}

// greet accepts a WebSocket, says who it is, and waits for the end.
func greet(w http.ResponseWriter, r *http.Request, name string) error {
	conn, rw, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return err
	}
	defer conn.Close()
	sum := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	text := "hello from " + name
	_, err = fmt.Fprintf(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: %s\r\n\r\n\x81%c%s",
		base64.StdEncoding.EncodeToString(sum[:]), len(text), text)
	if err != nil {
		return err
	}
	if err := rw.Flush(); err != nil {
		return err
	}
	if err := conn.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		return err
	}
	// The browser asks for the end with a close frame, which is answered by one without a code. It may be gone by then.
	_, _ = bufio.NewReader(rw).ReadByte()
	_, _ = io.WriteString(conn, "\x88\x00")
	return nil
}
