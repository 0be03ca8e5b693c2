package dataplane

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

// Without route names every dataplane knows the others' routes (rule J-4), and each request of a connection is decided (rule O-14).
func TestRoutesOfAddresses(t *testing.T) {
	a, b := newMember(t, "a", true), newMember(t, "b", true)
	for range 2 {
		s := newSite(t, "", mapped)
		pool := plainPool("app", a.addr(), b.addr())
		pool.GetPool().PersistMode = pb.PersistMode_PERSIST_MODE_JROUTE.Enum()
		if missing := s.apply(pool, virtualServer(web, "app")); len(missing) > 0 {
			t.Fatal(reasons(missing))
		}
		c, err := s.dial(web)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		r := bufio.NewReader(c)
		for i, route := range []string{"b", "", "b", "", "b", ""} {
			want, lines := []string{"a", "b"}[i/2%2], ""
			if route != "" {
				want, lines = route, "Cookie: JROUTE="+config.RouteOf(&pb.Member{Address: b.addr()})+"\r\n"
			}
			fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: h\r\n%s\r\n", lines)
			reply, err := http.ReadResponse(r, nil)
			if err != nil {
				t.Fatal(err)
			}
			body, _ := io.ReadAll(reply.Body)
			if who := strings.TrimSpace(string(body)); who != want {
				t.Errorf("request %d: answered by %s, want %s", i, who, want)
			}
		}
	}
}

// Rule J-20: refused targets are counted, until the counters are reset.
func TestLongTargetsAreCounted(t *testing.T) {
	a := newMember(t, "a", true)
	s := newSite(t, "", mapped)
	s.apply(cookiePool("web", a.addr()), virtualServer(web, "web"))
	counted := func() uint64 { return s.statistics("").GetUnit().GetCounters()["long_targets"] }
	c, err := s.dial(web)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "GET /%s HTTP/1.1\r\nHost: h\r\n\r\n", strings.Repeat("a", 8192))
	if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 414 ") || counted() != 1 {
		t.Errorf("answer %q, %v, counted %d", line, err, counted())
	}
	if err := s.engine.ResetStatistics(&pb.ResetStatisticsRequest{}); err != nil || counted() != 0 {
		t.Errorf("after a reset: %d, %v", counted(), err)
	}
}
