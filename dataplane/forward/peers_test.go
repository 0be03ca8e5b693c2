package forward

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bigpipe/dataplane/pool"
)

// TestVarnishtest runs scripts in which varnishtest is both the client and the member: a second opinion on the rows of the
// edge table. It cannot express these: the order and case of header lines and bytes as such (TestStrict compares them),
// trailers that are kept (row 12), for its server reads none.
func TestVarnishtest(t *testing.T) {
	program, err := exec.LookPath("varnishtest")
	if err != nil {
		if os.Getenv("BIGPIPE_NO_SKIP") != "" {
			t.Fatal("varnishtest is not installed")
		}
		t.Skip("varnishtest is not installed (package varnish)")
	}
	scripts, err := filepath.Glob("testdata/vtc/*.vtc")
	if err != nil || len(scripts) == 0 {
		t.Fatal(scripts, err)
	}
	for _, script := range scripts {
		t.Run(filepath.Base(script), func(t *testing.T) {
			o := &origin{addr: freeAddress(t)}
			b := newLab(t, Settings{HTTP: true, HeaderTimeout: time.Second, Pools: []*pool.Pool{compilePool(t, webPool(o), nil)}})
			cookie := strings.TrimPrefix(cookieOf(o), "Cookie: ")
			run := exec.CommandContext(t.Context(), program, "-t", "30", "-D", "origin="+o.addr.String(),
				"-D", "proxy="+b.l.Addr().String(), "-D", "cookie="+cookie, "-D", "header_timeout=1", script)
			run.Env = append(os.Environ(), "TMPDIR="+t.TempDir())
			out, err := run.CombinedOutput()
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
}

// freeAddress returns an address that nobody listens on.
func freeAddress(t *testing.T) addrPort {
	l, err := net.Listen("tcp", "127.0.0.31:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return parseAddrPort(l.Addr().String())
}
