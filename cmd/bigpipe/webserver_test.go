package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bigpipe/cmd/bigpipe/internal/e2e"
	"bigpipe/cmd/internal/process"
)

// peerProgram returns the path of a program that a test needs, as find says it.
func peerProgram(t *testing.T, find func() (string, error), debianPackage string) string {
	t.Helper()
	path, err := find()
	if err != nil {
		if os.Getenv("BIGPIPE_NO_SKIP") != "" {
			t.Fatal(err)
		}
		t.Skipf("%v (package %s)", err, debianPackage)
	}
	return path
}

func named(program string) func() (string, error) {
	return func() (string, error) { return exec.LookPath(program) }
}

// webServer is an Apache or nginx that is a member.
type webServer struct {
	name string // its address in the configuration
	dir  string
	read int // bytes of its log that were looked at
}

// visit is a request that a web server answered.
type visit struct{ path, port, cookie string }

// The configuration of each kind of web server: %[1]s is its folder, %[2]s its address on loopback, %[3]s more lines. Nothing
// may be kept by browsers; the log has a line for each request.
var webServers = map[string]struct{ program, debianPackage, config, flag string }{
	"apache": {"apache2", "apache2-bin", `ServerRoot %[1]s
ServerName localhost
PidFile %[1]s/pid
Listen %[2]s
User nobody
Group nogroup
LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
LoadModule headers_module /usr/lib/apache2/modules/mod_headers.so
LoadModule mime_module /usr/lib/apache2/modules/mod_mime.so
LoadModule dir_module /usr/lib/apache2/modules/mod_dir.so
StartServers 1
ThreadsPerChild 25
TypesConfig /dev/null
AddType text/html .html
AddType image/svg+xml .svg
DocumentRoot %[1]s/www
ErrorLog %[1]s/error.log
LogFormat "%%U %%{remote}p %%{Cookie}i" visits
CustomLog %[1]s/access.log visits
Header set Cache-Control no-store
%[3]s
`, "-DFOREGROUND"},
	"nginx": {"nginx", "nginx", `user nobody nogroup;
worker_processes 1;
pid %[1]s/pid;
error_log %[1]s/error.log;
events { worker_connections 256; }
http {
  types { text/html html; image/svg+xml svg; }
  client_body_temp_path %[1]s/t1; proxy_temp_path %[1]s/t2; fastcgi_temp_path %[1]s/t3; uwsgi_temp_path %[1]s/t4; scgi_temp_path %[1]s/t5;
  log_format visits '$uri $remote_port $http_cookie';
  access_log %[1]s/access.log visits;
  add_header Cache-Control no-store;
  server { listen %[2]s; root %[1]s/www; %[3]s }
}
daemon off;
`, ""},
}

// images is how many a page has.
const images = 8

// parts is how many requests a page takes.
const parts = 1 + images

// startWebServer starts an Apache or nginx at an address of the configuration. It has pages at /, /a/b/ and /a/c/, and its
// name at /who.
func startWebServer(t *testing.T, site *e2e.Site, kind, address, lines string) *webServer {
	t.Helper()
	c := webServers[kind]
	program := peerProgram(t, named(c.program), c.debianPackage)
	place, err := site.Place(address)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "bigpipe-"+kind+"-")
	if err != nil {
		t.Fatal(err)
	}
	w := &webServer{name: address, dir: dir}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	var page strings.Builder
	page.WriteString(`<!doctype html><link rel="icon" href="data:,">`)
	for i := range images {
		fmt.Fprintf(&page, `<img src="/%d.svg">`, i)
	}
	files := map[string]string{"config": fmt.Sprintf(c.config, dir, place, lines), "www/who": address, "www/echo": "ok"}
	for _, folder := range []string{"", "a/b/", "a/c/"} {
		files["www/"+folder+"index.html"] = page.String()
	}
	for i := range images {
		files[fmt.Sprintf("www/%d.svg", i)] = `<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"/>`
	}
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// The server's workers are nobody.
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	args := append(strings.Fields(c.flag), map[string][]string{
		"apache": {"-f", filepath.Join(dir, "config")}, "nginx": {"-c", filepath.Join(dir, "config"), "-p", dir, "-e", filepath.Join(dir, "error.log")},
	}[kind]...)
	p, err := process.Start(kind, exec.Command(program, args...), filepath.Join(dir, "output.log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
	})
	if err := p.Await(context.Background(), 20*time.Second, func() error { return accepts(place) }); err != nil {
		t.Fatal(err)
	}
	return w
}

// accepts tells why connections to a place are not accepted.
func accepts(place netip.AddrPort) error {
	conn, err := net.Dial("tcp", place.String())
	if err == nil {
		err = conn.Close()
	}
	return err
}

// visits returns the requests since it was called last.
func (w *webServer) visits(t *testing.T) []visit {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(w.dir, "access.log"))
	if err != nil {
		t.Fatal(err)
	}
	text = text[w.read:]
	text = text[:bytes.LastIndexByte(text, '\n')+1]
	w.read += len(text)
	var list []visit
	for line := range strings.Lines(string(text)) {
		words := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 3)
		if len(words) != 3 {
			t.Fatalf("log line %q", line)
		}
		list = append(list, visit{words[0], words[1], words[2]})
	}
	return list
}

// together waits until the servers have answered n requests since the last call. All have to be at one server, which it
// returns with them.
func together(t *testing.T, servers []*webServer, n int) (server string, visits []visit) {
	t.Helper()
	counts := map[string]int{}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		for _, w := range servers {
			if list := w.visits(t); len(list) > 0 {
				counts[w.name] += len(list)
				server, visits = w.name, append(visits, list...)
			}
		}
		if len(visits) >= n || time.Now().After(end) {
			break
		}
	}
	if len(counts) != 1 || len(visits) != n {
		t.Errorf("requests at the servers: %v; want %d at one", counts, n)
	}
	return server, visits
}
