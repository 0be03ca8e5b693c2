package dataplane

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

// quick is a monitor of a template with the shortest times.
func quick(name, template string) *pb.Object {
	return object(&pb.Monitor{Name: name, Use: template, Interval: proto.Uint32(1), Timeout: proto.Uint32(1)})
}

func monitorUse(target string, monitors ...string) *pb.Object {
	return object(&pb.MonitorUse{Target: target, Monitors: monitors})
}

// state returns a member's state as its pool shows it.
func (s *site) state(pool, member string) string {
	s.t.Helper()
	for _, m := range s.statistics(pool).GetPools()[0].GetMembers() {
		if m.GetAddress() == member {
			return pb.EnumWord(m.GetState())
		}
	}
	s.t.Fatalf("pool %s has no member %s", pool, member)
	return ""
}

func (s *site) awaitState(pool, member, state string) {
	s.t.Helper()
	eventually(s.t, member+" is "+state, func() bool { return s.state(pool, member) == state })
}

// page is a web member whose answer to a monitor is set; others are answered with its name.
type page struct {
	*member
	status atomic.Int64
	probes atomic.Int64
	silent atomic.Bool // nobody is answered
}

func newPage(t testing.TB, name string) *page {
	p := &page{}
	p.status.Store(200)
	p.member = newServer(t, "127.0.0.1:0", name, func(_ *member, c net.Conn) { p.answer(c) })
	return p
}

func (p *page) answer(c net.Conn) {
	for r := bufio.NewReader(c); ; {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		status := 200
		if p.silent.Load() {
			continue
		}
		if req.URL.Path == "/health" {
			p.probes.Add(1)
			time.Sleep(time.Duration(p.pause.Load()))
			status = int(p.status.Load())
		}
		fmt.Fprintf(c, "HTTP/1.1 %d x\r\nContent-Length: %d\r\n\r\n%s", status, len(p.name), p.name)
	}
}

// get asks a virtual server for a page, with a cookie unless it is "". It returns who answered, or the status, and the cookie that
// was set.
func (s *site) get(virtual, cookie string) (who, set string) {
	s.t.Helper()
	c, err := s.dial(virtual)
	if err != nil {
		s.t.Fatal(err)
	}
	defer c.Close()
	if cookie != "" {
		cookie = "Cookie: " + cookie + "\r\n"
	}
	fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: h\r\n%sConnection: close\r\n\r\n", cookie)
	reply, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	defer reply.Body.Close()
	body, _ := io.ReadAll(reply.Body)
	if who = string(body); reply.StatusCode != http.StatusOK {
		who = fmt.Sprint(reply.StatusCode)
	}
	set, _, _ = strings.Cut(reply.Header.Get("Set-Cookie"), ";")
	return who, set
}

// TestMonitors: pain 43: a member that answers its monitor with 500 is down although it takes connections; a client's cookie moves to
// another one. When all are down there is 503, or the fallback, and never a cookie.
func TestMonitors(t *testing.T) {
	s := newSite(t, "", "10.0.0.1:80=127.0.0.1:0")
	one, two := newPage(t, "one"), newPage(t, "two")
	m := quick("page", "http")
	m.GetMonitor().Send = proto.String("GET /health")
	if missing := s.apply(m, monitorUse(one.addr(), "page"), monitorUse(two.addr(), "page"),
		cookiePool("web", one.addr(), two.addr()), virtualServer("10.0.0.1:80", "web")); len(missing) > 0 {
		t.Fatal(reasons(missing))
	}
	s.awaitState("web", one.addr(), "up")
	s.awaitState("web", two.addr(), "up")
	_, cookieOne := s.get("10.0.0.1:80", "")
	if who, set := s.get("10.0.0.1:80", cookieOne); who != "one" || set != "" {
		t.Errorf("the cookie leads to %s and sets %q", who, set)
	}
	one.status.Store(500)
	s.awaitState("web", one.addr(), "down")
	who, moved := s.get("10.0.0.1:80", cookieOne)
	if who != "two" || moved == "" || moved == cookieOne {
		t.Errorf("with the member down the cookie leads to %s and sets %q", who, moved)
	}
	two.status.Store(404)
	s.awaitState("web", two.addr(), "down")
	if who, set := s.get("10.0.0.1:80", cookieOne); who != "503" || set != "" {
		t.Errorf("with all down: %s, cookie %q", who, set)
	}
	p := cookiePool("web", one.addr(), two.addr())
	p.GetPool().Fallback = proto.String("http://sorry/")
	s.apply(p)
	if who, set := s.get("10.0.0.1:80", cookieOne); who != "302" || set != "" {
		t.Errorf("with all down and a fallback: %s, cookie %q", who, set)
	}
	one.status.Store(200)
	s.awaitState("web", one.addr(), "up")
	if who, set := s.get("10.0.0.1:80", cookieOne); who != "one" || set != "" {
		t.Errorf("up again, the cookie leads to %s and sets %q", who, set)
	}
}

// TestMonitorStatistics: what each monitor says, and what is counted.
func TestMonitorStatistics(t *testing.T) {
	s := newSite(t, "", "10.0.0.1:80=127.0.0.1:0")
	one := newMember(t, "one", false)
	dead := newMember(t, "dead", false)
	dead.close()
	use := monitorUse(dead.addr(), "probe", "other")
	s.apply(quick("probe", "tcp"), quick("other", "tcp"), monitorUse(one.addr(), "probe"), use, plainPool("p", one.addr(), dead.addr()))
	s.awaitState("p", one.addr(), "up")
	s.awaitState("p", dead.addr(), "down")
	eventually(t, "both monitors have looked", func() bool {
		return strings.Count(monitorLines(t, s, ""), "down") == 2
	})
	want(t, monitorLines(t, s, dead.addr()), dead.addr()+" other down\n"+dead.addr()+" probe down\n")
	want(t, monitorLines(t, s, one.addr()), one.addr()+" probe up\n")
	all, err := s.engine.Statistics(&pb.StatisticsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if n := all.GetUnit().GetCounters(); n["nodes_up"] != 1 || n["nodes_down"] != 1 || n["monitor_probes"] < 3 || n["monitor_failures"] < 2 {
		t.Errorf("counters %v", n)
	}

	// monitor instance disable, and monitor disable
	use = monitorUse(dead.addr(), "probe", "other")
	use.GetMonitorUse().Enabled = proto.Bool(false)
	s.apply(use)
	want(t, s.state("p", dead.addr()), "unchecked")
	want(t, monitorLines(t, s, dead.addr()), dead.addr()+" other unchecked\n"+dead.addr()+" probe unchecked\n")
	off := quick("probe", "tcp")
	off.GetMonitor().Enabled = proto.Bool(false)
	s.apply(off)
	want(t, s.state("p", one.addr()), "unchecked")

	// no member, no check
	s.update(nil, []string{"pool/p"})
	want(t, monitorLines(t, s, ""), "")
}

func monitorLines(t *testing.T, s *site, node string) string {
	t.Helper()
	r := &pb.StatisticsRequest{}
	if node != "" {
		r.Node = &node
	}
	reply, err := s.engine.Statistics(r)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, m := range reply.GetMonitors() {
		lines = append(lines, fmt.Sprintln(m.GetNode(), m.GetMonitor(), pb.EnumWord(m.GetState())))
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// TestOnDown: pain 48: open connections to a member that monitors find down are reset within a second (on_down reset), or live on.
func TestOnDown(t *testing.T) {
	s := newSite(t, "", "10.0.0.1:80=127.0.0.1:0,10.0.0.2:80=127.0.0.1:0")
	one := newMember(t, "one", false)
	health := newPage(t, "health")
	m := quick("page", "http") // looks elsewhere, so that the member itself lives
	m.GetMonitor().Send, m.GetMonitor().Dest = proto.String("GET /health"), proto.String(health.addr())
	reset := plainPool("reset", one.addr())
	reset.GetPool().OnDown = pb.OnDown_ON_DOWN_RESET.Enum()
	s.apply(m, monitorUse(one.addr(), "page"), reset, plainPool("keep", one.addr()),
		virtualServer("10.0.0.1:80", "reset"), virtualServer("10.0.0.2:80", "keep"))
	s.awaitState("reset", one.addr(), "up")
	_, ends := s.visit("10.0.0.1:80")
	_, lives := s.visit("10.0.0.2:80")
	echo(t, ends, "hello")
	echo(t, lives, "hello")
	health.status.Store(500)
	s.awaitState("reset", one.addr(), "down")
	if _, err := ends.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "reset by peer") {
		t.Errorf("the client is told %v", err)
	}
	one.mu.Lock()
	first := one.conns[0]
	one.mu.Unlock()
	eventually(t, "the member is told", func() bool { _, err := first.Write([]byte("x")); return err != nil })
	echo(t, lives, "still")
	want(t, s.who("10.0.0.1:80"), "nobody")
}

// TestStateAfterRestart: pain 37: after a restart a member that was down is up with its first success, and what the operator said is still there.
func TestStateAfterRestart(t *testing.T) {
	dir := t.TempDir()
	s := newSite(t, dir, "10.0.0.1:80=127.0.0.1:0")
	one, two := newPage(t, "one"), newPage(t, "two")
	m := quick("page", "http")
	m.GetMonitor().Send = proto.String("GET /health")
	one.status.Store(500)
	s.apply(m, monitorUse(one.addr(), "page"), monitorUse(two.addr(), "page"), plainPool("web", one.addr(), two.addr()),
		virtualServer("10.0.0.1:80", "web"), object(&pb.Node{Address: two.addr(), Enabled: proto.Bool(false)}))
	s.awaitState("web", one.addr(), "down")
	s.close()
	one.status.Store(200)
	again := newSite(t, dir, "10.0.0.1:80=127.0.0.1:0")
	again.awaitState("web", one.addr(), "up")
	want(t, again.state("web", two.addr()), "disabled")
}

// TestChecking: a client without a record is sent to a member that nothing is known of only when there is no other; one that is bound
// to it stays.
func TestChecking(t *testing.T) {
	s := newSite(t, "", "10.0.0.1:80=127.0.0.1:0")
	one, two := newMember(t, "one", false), newMember(t, "two", false)
	slow := quick("slow", "tcp") // a member says its name and nothing else
	slow.GetMonitor().Recv, slow.GetMonitor().Timeout = proto.String("never"), proto.Uint32(600)
	s.apply(simplePool("p", 300, one.addr(), two.addr()), virtualServer("10.0.0.1:80", "p"))
	want(t, s.who("10.0.0.1:80"), "one")
	s.apply(slow, monitorUse(one.addr(), "slow"))
	want(t, s.state("p", one.addr()), "checking")
	want(t, s.who("10.0.0.1:80"), "one") // bound
	s.apply(plainPool("p", one.addr(), two.addr()))
	for range 4 {
		want(t, s.who("10.0.0.1:80"), "two")
	}
	s.apply(plainPool("p", one.addr()))
	want(t, s.who("10.0.0.1:80"), "one")
}

// TestLegacyChecks: members and addresses are checked as 3.x does: tping_svc and tping_node.
func TestLegacyChecks(t *testing.T) {
	s := newSite(t, "", "10.0.0.1:80=127.0.0.1:0")
	one, dead := newMember(t, "one", false), newMember(t, "dead", false)
	dead.close()
	port := func(m *member) uint32 { return uint32(m.l.Addr().(*net.TCPAddr).Port) }
	service := func(m *member) *pb.Object {
		return object(&pb.Service{Port: port(m), Tping: proto.Uint32(1), TpingTimeout: proto.Uint32(1)})
	}
	s.apply(service(one), service(dead), plainPool("p", one.addr(), dead.addr()), virtualServer("10.0.0.1:80", "p"))
	s.awaitState("p", one.addr(), "up")
	s.awaitState("p", dead.addr(), "down")
	want(t, monitorLines(t, s, one.addr()), fmt.Sprintf("%s tping_svc %d up\n", one.addr(), port(one)))
	s.update(nil, []string{fmt.Sprintf("service/%d", port(one)), fmt.Sprintf("service/%d", port(dead))})
	want(t, s.state("p", dead.addr()), "unchecked")

	missing := s.apply(object(&pb.Global{TpingNode: proto.Uint32(1)}))
	if len(missing) > 0 { // not permitted here
		want(t, missing[0].GetKey(), "global")
		if !strings.HasPrefix(missing[0].GetReason(), "icmp needs the capability CAP_NET_RAW") {
			t.Errorf("the reason is %s", missing[0].GetReason())
		}
		return
	}
	eventually(t, "the address is pinged", func() bool { return monitorLines(t, s, "127.0.0.1") == "127.0.0.1 tping_node up\n" })
}

// TestActiveLines: lines of bigd.conf: the text of an address and port comes before that of the port; a request of HTTP is completed.
func TestActiveLines(t *testing.T) {
	s := newSite(t, "", "10.0.0.1:80=127.0.0.1:0")
	good, bad, bare := newPage(t, "good"), newPage(t, "bad"), newMember(t, "bare", false)
	bad.status.Store(500)
	service := func(address string) *pb.Object {
		_, port, _ := config.SplitAddress(address)
		return object(&pb.Service{Port: uint32(port), Tping: proto.Uint32(1), TpingTimeout: proto.Uint32(1)})
	}
	_, port, _ := config.SplitAddress(bare.addr())
	ofPort, health := fmt.Sprintf("*:%d", port), proto.String("GET /health")
	ok := proto.String("^HTTP/1.1 200")
	want(t, reasons(s.apply(service(good.addr()), service(bad.addr()), service(bare.addr()),
		object(&pb.Active{Target: good.addr(), Send: health, Recv: ok}), object(&pb.Active{Target: bad.addr(), Send: health, Recv: ok}),
		object(&pb.Active{Target: ofPort, Send: proto.String(`hello\n`), Recv: proto.String("^bare\nhello")}),
		plainPool("p", good.addr(), bad.addr(), bare.addr()), virtualServer("10.0.0.1:80", "p"))), "")
	s.awaitState("p", good.addr(), "up")
	s.awaitState("p", bad.addr(), "down")
	s.awaitState("p", bare.addr(), "up")
	want(t, monitorLines(t, s, bare.addr()), fmt.Sprintf("%s active %d up\n", bare.addr(), port))
	want(t, monitorLines(t, s, bad.addr()), fmt.Sprintf("%s active %s down\n", bad.addr(), bad.addr()))

	s.apply(object(&pb.Active{Target: bad.addr(), Send: health})) // any answer
	s.awaitState("p", bad.addr(), "up")
	s.apply(object(&pb.Active{Target: ofPort, Send: proto.String("x"), Recv: proto.String("[")}))
	if got := reasons(s.engine.notInEffect()); !strings.HasPrefix(got, "active/"+ofPort+": recv: error parsing regexp") {
		t.Errorf("not in effect: %s", got)
	}
	s.update(nil, []string{"active/" + ofPort})
	s.awaitState("p", bare.addr(), "up")
	want(t, monitorLines(t, s, bare.addr()), fmt.Sprintf("%s tping_svc %d up\n", bare.addr(), port))
}

// TestHealthChecker: rules J-14, J-16, J-T12, J-T13: a member that does not answer a request within response_timeout, or refuses, is
// down at once and serves nobody; then its health checker asks for a page until the status is 500 at most.
func TestHealthChecker(t *testing.T) {
	s := newSite(t, "", "10.0.0.1:80=127.0.0.1:0")
	one, two := newPage(t, "one"), newPage(t, "two")
	m := quick("sun", "health_checker")
	m.GetMonitor().Url = proto.String("/health")
	p := plainPool("web", one.addr(), two.addr())
	p.GetPool().ResponseTimeout = proto.Uint32(1)
	v := virtualServer("10.0.0.1:80", "web")
	v.GetVirtual().Http = pb.HttpProcessing_HTTP_PROCESSING_ENABLE.Enum()
	want(t, reasons(s.apply(m, monitorUse(one.addr(), "sun"), monitorUse(two.addr(), "sun"), p, v)), "")
	one.status.Store(501)
	want(t, s.state("web", one.addr()), "unchecked")
	one.silent.Store(true)
	replies := map[string]bool{}
	for range 2 {
		who, _ := s.get("10.0.0.1:80", "")
		replies[who] = true
	}
	if !replies["504"] || !replies["two"] {
		t.Errorf("answers %v", replies)
	}
	want(t, s.state("web", one.addr()), "down")
	want(t, monitorLines(t, s, one.addr()), one.addr()+" sun down\n")
	for range 4 {
		who, _ := s.get("10.0.0.1:80", "")
		want(t, who, "two")
	}
	one.silent.Store(false)
	before := one.probes.Load()
	eventually(t, "it is probed", func() bool { return one.probes.Load() >= before+2 })
	want(t, s.state("web", one.addr()), "down") // 501
	one.status.Store(500)
	s.awaitState("web", one.addr(), "up")
	eventually(t, "it serves again", func() bool { who, _ := s.get("10.0.0.1:80", ""); return who == "one" })
	if n := two.probes.Load(); n != 0 {
		t.Errorf("%d probes of the member that was well", n)
	}
	two.close()
	eventually(t, "two is down", func() bool { s.get("10.0.0.1:80", ""); return s.state("web", two.addr()) == "down" })
}

// TestUnfitMonitors: a template that cannot be carried out, an address without a port, a regular expression that is none.
func TestUnfitMonitors(t *testing.T) {
	s := newSite(t, "", "10.0.0.1:80=127.0.0.1:0")
	one := newMember(t, "one", false)
	odd, through := quick("odd", "tcp"), quick("through", "tcp")
	odd.GetMonitor().Recv = proto.String("(")
	through.GetMonitor().Dest, through.GetMonitor().Transparent = proto.String("192.0.2.1:80"), proto.Bool(true)
	missing := s.apply(quick("probe", "tcp"), quick("login", "radius"), odd, through, object(&pb.Monitor{Name: "lost", Use: "nothing"}),
		quick("prog", "external"), monitorUse(one.addr(), "probe", "login", "odd", "lost", "through", "prog"), monitorUse("127.0.0.1", "probe"),
		plainPool("p", one.addr()))
	here := " (unchecked by it: " + one.addr() + ")"
	want(t, reasons(missing), "monitor/login: the template radius is not supported"+here+
		"\nmonitor/lost: it is derived from no template"+here+
		"\nmonitor/odd: recv: error parsing regexp: missing closing ): `(`"+here+
		"\nmonitor/probe: dest: the address 127.0.0.1 alone has no port to look at (unchecked by it: 127.0.0.1)"+
		"\nmonitor/prog: external needs run PROGRAM"+here+
		"\nmonitor/through: transparent: nothing can be sent through 127.0.0.1 to 192.0.2.1"+here)
	s.awaitState("p", one.addr(), "up") // probe alone decides
}

// TestPassiveHealth: three connects of traffic that fail one after the other mark a member down; where its monitor succeeds it may be
// tried again.
func TestPassiveHealth(t *testing.T) {
	s := newSite(t, "", "10.0.0.1:80=127.0.0.1:0")
	one, two := newMember(t, "one", false), newMember(t, "two", false)
	address := one.addr()
	one.close()
	p := plainPool("p", address, two.addr())
	p.GetPool().PassiveHealth = proto.Bool(true)
	s.apply(p, plainPool("other", address), virtualServer("10.0.0.1:80", "p"))
	for range 8 {
		want(t, s.who("10.0.0.1:80"), "two")
	}
	want(t, s.state("p", address), "down")
	want(t, s.state("other", address), "unchecked")

	health := newPage(t, "health")
	m := quick("page", "http")
	m.GetMonitor().Dest = proto.String(health.addr())
	s.apply(m, monitorUse(address, "page"))
	s.awaitState("p", address, "up")
}

// TestStatesSurvive: a change of the configuration does not have checks begin again.
func TestStatesSurvive(t *testing.T) {
	s := newSite(t, "", "10.0.0.1:80=127.0.0.1:0")
	one := newMember(t, "one", false)
	m := object(&pb.Monitor{Name: "probe", Use: "tcp", Interval: proto.Uint32(300), Timeout: proto.Uint32(901)})
	s.apply(m, monitorUse(one.addr(), "probe"), plainPool("p", one.addr()), virtualServer("10.0.0.1:80", "p"))
	s.awaitState("p", one.addr(), "up")
	other := newMember(t, "other", false)
	s.apply(plainPool("q", one.addr(), other.addr()))
	want(t, s.state("q", one.addr()), "up")
	s.apply(plainPool("p", other.addr(), one.addr()), object(&pb.Global{Lb: pb.LbMode_LB_MODE_RATIO.Enum()}))
	want(t, s.state("p", one.addr()), "up")
	want(t, s.state("p", other.addr()), "unchecked")
}

// TestWatchStates: the states of all nodes that are monitored, then each change.
func TestWatchStates(t *testing.T) {
	client, e := startRun(t, t.TempDir(), "")
	one := newPage(t, "one")
	m := quick("page", "http")
	m.GetMonitor().Send = proto.String("GET /health")
	if _, err := push(t, client, &pb.ApplyRequest{Header: full(1), Changed: []*pb.Object{m, monitorUse(one.addr(), "page"), plainPool("p", one.addr())}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the member is up", func() bool { return e.health.monitors.Counts().Ups == 1 })
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	states, err := client.WatchStates(ctx, &pb.WatchStatesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	next := func(state, was, reason string) {
		t.Helper()
		got, err := states.Recv()
		if err != nil {
			t.Fatal(err)
		}
		age := time.Since(time.UnixMilli(got.GetChangedAtMs()))
		if got.GetNode() != one.addr() || pb.EnumWord(got.GetState()) != state || pb.EnumWord(got.GetWas()) != was ||
			got.GetMonitor() != "page" || got.GetReason() != reason || age < -time.Second || age > patience {
			t.Errorf("got %v", got)
		}
	}
	next("up", pb.EnumWord(pb.MemberState_MEMBER_STATE_UNSPECIFIED), "")
	one.status.Store(500)
	next("down", "up", "status 500")
	one.status.Store(200)
	next("up", "down", "")
}
