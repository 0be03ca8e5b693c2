package monitor

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"bigpipe/dataplane/pool"
)

func TestMain(m *testing.M) {
	if os.Getenv(acceptor) != "" {
		accept()
	}
	goleak.VerifyTestMain(m)
}

// scripted is a prober without a network: a place answers after a while what is set for it.
type scripted struct {
	mu      sync.Mutex
	answers map[netip.AddrPort]func() (time.Duration, error)
	starts  map[netip.AddrPort][]time.Time
	open    int
	most    int
}

func newScripted() *scripted {
	return &scripted{answers: map[netip.AddrPort]func() (time.Duration, error){}, starts: map[netip.AddrPort][]time.Time{}}
}

func (p *scripted) Prepare(spec *Spec) (Probe, error) {
	if spec.Recv == "unfit" {
		return nil, errors.New("unfit")
	}
	return &scriptedProbe{p, spec.Dial}, nil
}

func (p *scripted) Close() {}

// set says what a place answers, after a while, from now on.
func (p *scripted) set(at netip.AddrPort, after time.Duration, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers[at] = func() (time.Duration, error) { return after, err }
}

func (p *scripted) startsOf(at netip.AddrPort) []time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.starts[at]
}

type scriptedProbe struct {
	prober *scripted
	at     netip.AddrPort
}

func (s *scriptedProbe) Start(deadline time.Time, done func(error)) {
	p := s.prober
	p.mu.Lock()
	defer p.mu.Unlock()
	p.starts[s.at] = append(p.starts[s.at], time.Now())
	p.open++
	p.most = max(p.most, p.open)
	after, err := time.Duration(0), error(nil)
	if answer := p.answers[s.at]; answer != nil {
		after, err = answer()
	}
	if left := time.Until(deadline); after > left {
		after, err = left, errLate
	}
	// Not at once: a timer of a bubble that is due when it is made can crash under the race detector (Go 1.26).
	time.AfterFunc(max(after, time.Nanosecond), func() {
		p.mu.Lock()
		p.open--
		p.mu.Unlock()
		done(err)
	})
}

func newTestSet(p Prober, o Options) *Set {
	if o.Health == nil {
		o.Health = &pool.Healths{}
	}
	o.Prober, o.Log = p, slog.New(slog.DiscardHandler)
	return New(o)
}

func at(text string) netip.AddrPort { return parse(text) }

// checked is a node with TCP monitors of the usual times.
func checked(node string, monitors ...string) Node {
	n := Node{Addr: at(node)}
	for _, m := range monitors {
		n.Instances = append(n.Instances, Instance{
			Monitor: m, Enabled: true, Target: n.Addr,
			Spec: Spec{Kind: TCP, Dial: n.Addr, Interval: 5 * time.Second, Timeout: 16 * time.Second},
		})
	}
	return n
}

// looking has a node's last monitor look elsewhere.
func looking(n Node, where string) Node {
	in := &n.Instances[len(n.Instances)-1]
	in.Target, in.Spec.Dial = at(where), at(where)
	return n
}

func wantState(t *testing.T, h *pool.Healths, node string, want pool.State) {
	t.Helper()
	got := h.Address(at(node).Addr())
	if at(node).Port() != 0 {
		got = h.Of(at(node)).State()
	}
	if got != want {
		t.Errorf("%s is %s, want %s", node, got, want)
	}
}

var errRefused = errors.New("connection refused")

// TestStates: checking until the first result, which decides; down after no success for the timeout; up with the next one.
func TestStates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, p := &pool.Healths{}, newScripted()
		s := newTestSet(p, Options{Health: h})
		defer s.Close()
		good, bad := "10.1.1.1:80", "10.1.1.2:80"
		p.set(at(good), 300*time.Millisecond, nil)
		p.set(at(bad), 310*time.Millisecond, errRefused)
		s.Apply([]Node{checked(good, "tcp"), checked(bad, "tcp")})
		wantState(t, h, good, pool.Checking)
		wantState(t, h, bad, pool.Checking)
		time.Sleep(400 * time.Millisecond)
		wantState(t, h, good, pool.Up)
		wantState(t, h, bad, pool.Down)

		p.set(at(good), 0, errRefused)
		starts := p.startsOf(at(good))
		success := starts[len(starts)-1].Add(300 * time.Millisecond)
		time.Sleep(time.Until(success.Add(16*time.Second - time.Millisecond)))
		wantState(t, h, good, pool.Up)
		time.Sleep(100 * time.Millisecond)
		wantState(t, h, good, pool.Down)

		p.set(at(good), 0, nil)
		time.Sleep(5100 * time.Millisecond)
		wantState(t, h, good, pool.Up)

		list, missed, _ := s.After(0)
		var lines string
		for _, tr := range list {
			lines += fmt.Sprintf("%s %s-%s %s %s\n", tr.Name(), tr.From, tr.To, tr.Monitor, tr.Reason)
		}
		want := `10.1.1.1:80 unchecked-checking  
10.1.1.2:80 unchecked-checking  
10.1.1.1:80 checking-up tcp 
10.1.1.2:80 checking-down tcp connection refused
10.1.1.1:80 up-down tcp connection refused
10.1.1.1:80 down-up tcp 
`
		if lines != want || missed {
			t.Errorf("transitions:\n%s", lines)
		}
		if n := s.Counts(); n.Ups != 2 || n.Downs != 2 || n.Checks != 2 || n.Nodes != 2 {
			t.Errorf("counts %+v", n)
		}
	})
}

// TestNeverAnswers: a node that takes connections and says nothing is checking until the first check has had its time.
func TestNeverAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, p := &pool.Healths{}, newScripted()
		s := newTestSet(p, Options{Health: h})
		defer s.Close()
		p.set(at("10.1.1.1:80"), time.Hour, nil)
		s.Apply([]Node{checked("10.1.1.1:80", "tcp")})
		time.Sleep(15 * time.Second)
		wantState(t, h, "10.1.1.1:80", pool.Checking)
		time.Sleep(2 * time.Second)
		wantState(t, h, "10.1.1.1:80", pool.Down)
	})
}

// TestSlowAnswers: answers that take longer than the interval, and less than the timeout, keep a node up.
func TestSlowAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, p := &pool.Healths{}, newScripted()
		s := newTestSet(p, Options{Health: h})
		defer s.Close()
		p.set(at("10.1.1.1:80"), 14*time.Second, nil)
		s.Apply([]Node{checked("10.1.1.1:80", "tcp")})
		time.Sleep(15 * time.Second)
		for range 100 {
			wantState(t, h, "10.1.1.1:80", pool.Up)
			time.Sleep(time.Second)
		}
	})
}

// TestAllMustSucceed: several monitors of a node are joined by and; one that is switched off does not count.
func TestAllMustSucceed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, p := &pool.Healths{}, newScripted()
		s := newTestSet(p, Options{Health: h})
		defer s.Close()
		n := looking(checked("10.1.1.1:80", "a", "b"), "10.1.1.1:81")
		p.set(at("10.1.1.1:81"), 0, errRefused)
		s.Apply([]Node{n})
		time.Sleep(time.Second)
		wantState(t, h, "10.1.1.1:80", pool.Down)

		off := looking(checked("10.1.1.1:80", "a", "b"), "10.1.1.1:81")
		off.Instances[1].Enabled = false
		s.Apply([]Node{off})
		wantState(t, h, "10.1.1.1:80", pool.Up)
		off.Instances[0].Enabled = false
		s.Apply([]Node{off})
		wantState(t, h, "10.1.1.1:80", pool.Unchecked)
		if n := s.Counts(); n.Checks != 0 || n.Nodes != 1 {
			t.Errorf("counts %+v", n)
		}
		s.Apply([]Node{{Addr: at("10.1.1.1:80")}})
		if n := s.Counts(); n.Nodes != 0 {
			t.Errorf("counts %+v", n)
		}
	})
}

// TestAddressAndService: an address that is down takes all its members along, whatever their own monitors find.
func TestAddressAndService(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, p := &pool.Healths{}, newScripted()
		s := newTestSet(p, Options{Health: h})
		defer s.Close()
		s.Apply([]Node{checked("10.1.1.1:80", "tcp"), checked("10.1.1.1", "icmp")})
		other := h.Of(at("10.1.1.1:81")) // no monitor of its own
		if other.State() != pool.Checking {
			t.Errorf("beside an address in checking: %s", other.State())
		}
		time.Sleep(time.Second)
		wantState(t, h, "10.1.1.1:80", pool.Up)
		wantState(t, h, "10.1.1.1:81", pool.Unchecked)
		p.set(at("10.1.1.1"), 0, errRefused)
		time.Sleep(22 * time.Second)
		wantState(t, h, "10.1.1.1", pool.Down)
		wantState(t, h, "10.1.1.1:80", pool.AddressDown)
		if other.State() != pool.AddressDown {
			t.Errorf("beside an address that is down: %s", other.State())
		}
		s.Apply([]Node{{Addr: at("10.1.1.1")}})
		wantState(t, h, "10.1.1.1:80", pool.Up)
		wantState(t, h, "10.1.1.1:81", pool.Unchecked)
		runtime.KeepAlive(other)
	})
}

// TestShared: nodes whose monitor looks at one place share a check.
func TestShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, p := &pool.Healths{}, newScripted()
		s := newTestSet(p, Options{Health: h})
		defer s.Close()
		var nodes []Node
		for i := range 10 {
			nodes = append(nodes, looking(checked(fmt.Sprintf("10.1.1.1:%d", 8000+i), "page"), "10.1.1.1:80"))
		}
		s.Apply(nodes)
		time.Sleep(time.Minute)
		if n := s.Counts(); n.Checks != 1 || n.Nodes != 10 {
			t.Errorf("counts %+v", n)
		}
		if n := len(p.startsOf(at("10.1.1.1:80"))); n < 12 || n > 14 {
			t.Errorf("%d probes in a minute", n)
		}
		wantState(t, h, "10.1.1.1:8009", pool.Up)
		p.set(at("10.1.1.1:80"), 0, errRefused)
		time.Sleep(22 * time.Second)
		wantState(t, h, "10.1.1.1:8000", pool.Down)
		wantState(t, h, "10.1.1.1:8009", pool.Down)
	})
}

// TestChange: what stays the same is not checked anew; a monitor that changes keeps its state until the next result.
func TestChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, p := &pool.Healths{}, newScripted()
		s := newTestSet(p, Options{Health: h})
		defer s.Close()
		s.Apply([]Node{checked("10.1.1.1:80", "tcp")})
		time.Sleep(12 * time.Second)
		before := len(p.startsOf(at("10.1.1.1:80")))
		s.Apply([]Node{checked("10.1.1.1:80", "tcp")})
		time.Sleep(100 * time.Millisecond)
		if n := len(p.startsOf(at("10.1.1.1:80"))); n != before {
			t.Errorf("an unchanged monitor was started again")
		}
		changed := checked("10.1.1.1:80", "tcp")
		changed.Instances[0].Spec.Send = "hello"
		p.set(at("10.1.1.1:80"), 0, errRefused)
		s.Apply([]Node{changed})
		time.Sleep(100 * time.Millisecond)
		if n := len(p.startsOf(at("10.1.1.1:80"))); n != before+1 {
			t.Errorf("a changed monitor was started %d times", n-before)
		}
		wantState(t, h, "10.1.1.1:80", pool.Up)
		time.Sleep(17 * time.Second)
		wantState(t, h, "10.1.1.1:80", pool.Down)

		// one more monitor: nothing is known of it, and the other still decides
		s.Apply([]Node{looking(checked("10.1.1.2:80", "a"), "10.1.1.2:80")})
		time.Sleep(time.Second)
		p.set(at("10.1.1.2:90"), 2*time.Second, nil)
		s.Apply([]Node{looking(checked("10.1.1.2:80", "a", "b"), "10.1.1.2:90")})
		wantState(t, h, "10.1.1.2:80", pool.Checking)
		time.Sleep(3 * time.Second)
		wantState(t, h, "10.1.1.2:80", pool.Up)
	})
}

// TestFaults: what cannot be carried out does not count; its node stays unchecked.
func TestFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, p := &pool.Healths{}, newScripted()
		s := newTestSet(p, Options{Health: h})
		defer s.Close()
		n := checked("10.1.1.1:80", "radius", "odd")
		n.Instances[0].Fault = "the template radius is not supported"
		n.Instances[1].Spec.Recv = "unfit"
		s.Apply([]Node{n})
		time.Sleep(time.Minute)
		wantState(t, h, "10.1.1.1:80", pool.Unchecked)
		var faults []string
		s.Range(func(_ netip.AddrPort, in *Instance, state pool.State) {
			faults = append(faults, in.Monitor+": "+in.Fault+" "+state.String())
		})
		want := "[radius: the template radius is not supported unchecked odd: unfit unchecked]"
		if got := fmt.Sprint(faults); got != want {
			t.Errorf("got %s", got)
		}
	})
}

// TestSpread: the first checks begin at once; later ones are spread evenly over the interval.
func TestSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newScripted()
		s := newTestSet(p, Options{})
		defer s.Close()
		var nodes []Node
		for i := range 1000 {
			nodes = append(nodes, checked(fmt.Sprintf("10.1.%d.%d:80", i/250, 1+i%250), "tcp"))
		}
		begin := time.Now()
		s.Apply(nodes)
		time.Sleep(31 * time.Second)
		var each [10]int
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, starts := range p.starts {
			if len(starts) < 6 {
				t.Fatalf("%d starts in 31 s", len(starts))
			}
			if d := starts[0].Sub(begin); d > 300*time.Millisecond {
				t.Errorf("the first check begins after %s", d)
			}
			each[starts[3].Sub(begin)%(5*time.Second)/(500*time.Millisecond)]++
			if gap := starts[4].Sub(starts[3]); gap < 4900*time.Millisecond || gap > 5100*time.Millisecond {
				t.Errorf("%s between two starts", gap)
			}
		}
		for i, n := range each {
			if n < 80 || n > 120 {
				t.Errorf("%d of 1,000 begin in tenth %d of the interval: %v", n, i, each)
			}
		}
	})
}

// TestPlaces: there are only so many probes at a time; nodes that do not answer do not keep the others from being checked, and
// waiting is nobody's fault.
func TestPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, p := &pool.Healths{}, newScripted()
		s := newTestSet(p, Options{Health: h, Places: 20})
		defer s.Close()
		var nodes []Node
		for i := range 200 {
			name := fmt.Sprintf("10.1.1.%d:80", 1+i)
			if i%2 == 0 {
				p.set(at(name), time.Hour, nil)
			}
			nodes = append(nodes, checked(name, "tcp"))
		}
		s.Apply(nodes)
		time.Sleep(5 * time.Minute)
		for i, n := range nodes {
			want := pool.Up
			if i%2 == 0 {
				want = pool.Down
			}
			wantState(t, h, n.Addr.String(), want)
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.most > 30 {
			t.Errorf("%d probes at a time", p.most)
		}
		if n := s.Counts(); n.Downs != 100 || n.Ups != 100 {
			t.Errorf("counts %+v", n)
		}
	})
}

// TestLocal: that this machine has no socket left says nothing about a node.
func TestLocal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, p := &pool.Healths{}, newScripted()
		s := newTestSet(p, Options{Health: h})
		defer s.Close()
		s.Apply([]Node{checked("10.1.1.1:80", "tcp")})
		time.Sleep(time.Second)
		p.set(at("10.1.1.1:80"), 0, fmt.Errorf("%w: too many open files", ErrLocal))
		time.Sleep(time.Minute)
		wantState(t, h, "10.1.1.1:80", pool.Up)
	})
}

// saying is a probe that succeeds and says a weight.
type saying struct {
	Probe
	said *atomic.Uint32
}

func (s saying) Weight() uint32 { return s.said.Load() }

// sayingProber makes such probes.
type sayingProber struct {
	*scripted
	said atomic.Uint32
}

func (p *sayingProber) Prepare(spec *Spec) (Probe, error) {
	probe, err := p.scripted.Prepare(spec)
	return saying{probe, &p.said}, err
}

// TestWeights: members and addresses weigh what their monitors say, until these say nothing or are no more.
func TestWeights(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, p := &pool.Healths{}, &sayingProber{scripted: newScripted()}
		s := New(Options{Health: h, Prober: p, Log: slog.New(slog.DiscardHandler)})
		defer s.Close()
		own, beside := h.Of(at("10.1.1.1:80")), h.Of(at("10.1.1.2:80"))
		s.Apply([]Node{checked("10.1.1.1:80", "eav"), checked("10.1.1.2", "eav")})
		for _, said := range []uint32{7, 9, 0, 3} {
			p.said.Store(said)
			time.Sleep(time.Minute)
			if own.Weight() != said || beside.Weight() != said {
				t.Errorf("they weigh %d and %d, want %d", own.Weight(), beside.Weight(), said)
			}
		}
		s.Apply([]Node{{Addr: at("10.1.1.1:80")}, {Addr: at("10.1.1.2")}})
		if own.Weight() != 0 || beside.Weight() != 0 {
			t.Errorf("without monitors they weigh %d and %d", own.Weight(), beside.Weight())
		}
	})
}

// TestWeekOfFlapping: a week of nodes that come and go leaves the counters right, and the memory flat.
func TestWeekOfFlapping(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, p := &pool.Healths{}, newScripted()
		s := newTestSet(p, Options{Health: h})
		defer s.Close()
		const hours, nodes = 7 * 24, 3
		var list []Node
		for i := range nodes {
			list = append(list, checked(fmt.Sprintf("10.1.1.%d:80", i+1), "tcp"))
		}
		s.Apply(list)
		time.Sleep(time.Minute)
		var after [2]uint64 // heap, after a day and at the end
		for hour := range hours {
			for i, n := range list { // down for half of each hour
				p.set(n.Addr, time.Duration(i)*time.Millisecond, errRefused)
			}
			time.Sleep(30 * time.Minute)
			for _, n := range list {
				p.set(n.Addr, time.Millisecond, nil)
			}
			p.mu.Lock()
			clear(p.starts)
			p.mu.Unlock()
			time.Sleep(30 * time.Minute)
			if hour == 23 {
				after[0] = heapInUse()
			}
		}
		after[1] = heapInUse()
		n := s.Counts()
		if n.Downs != hours*nodes || n.Ups != hours*nodes+nodes {
			t.Errorf("%d times down and %d up, want %d and %d", n.Downs, n.Ups, hours*nodes, hours*nodes+nodes)
		}
		if want := uint64(hours * 3600 / 5 * nodes); n.Probes < want-100 || n.Probes > want+100 {
			t.Errorf("%d probes, want about %d", n.Probes, want)
		}
		if s.Last() != n.Ups+n.Downs+nodes { // each was checking once
			t.Errorf("%d transitions", s.Last())
		}
		if after[1] > after[0]+256<<10 {
			t.Errorf("%d bytes after a day, %d after a week", after[0], after[1])
		}
	})
}

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// TestAfter: who follows transitions misses none unless he is far behind, and then is told.
func TestAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newScripted()
		s := newTestSet(p, Options{})
		_, _, more := s.After(0)
		s.Apply([]Node{checked("10.1.1.1:80", "tcp")})
		<-more
		time.Sleep(time.Second)
		list, missed, more := s.After(1)
		if len(list) != 1 || missed || list[0].Number != 2 || list[0].To != pool.Up {
			t.Errorf("got %v, missed %t", list, missed)
		}
		for range kept {
			s.Apply([]Node{{Addr: at("10.1.1.1:80")}})
			s.Apply([]Node{checked("10.1.1.1:80", "tcp")})
		}
		<-more
		if list, missed, _ := s.After(2); !missed || len(list) != kept || list[kept-1].Number != s.Last() {
			t.Errorf("%d transitions, missed %t", len(list), missed)
		}
		_, _, more = s.After(s.Last())
		s.Close()
		<-more
	})
}

// TestAnswerTimes: rule M-6: the time of a reply is that of the slowest monitor of a member, averaged; what waits for silence, or runs
// a program, measures none.
func TestAnswerTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, p := &pool.Healths{}, newScripted()
		s := newTestSet(p, Options{Health: h})
		defer s.Close()
		node, slow := "10.1.1.1:80", "10.9.9.9:80"
		p.set(at(node), 20*time.Millisecond, nil)
		p.set(at(slow), 40*time.Millisecond, nil)
		s.Apply([]Node{checked(node, "tcp"), checked("10.1.1.2:80", "tcp"), looking(checked("10.1.1.3:80", "tcp", "aside"), slow)})
		p.set(at("10.1.1.2:80"), time.Second, errRefused)
		wantTime := func(node string, want time.Duration) {
			t.Helper()
			if got := h.Of(at(node)).Probed(); got != want {
				t.Errorf("%s answers in %s, want %s", node, got, want)
			}
		}
		time.Sleep(6 * time.Second)
		wantTime(node, 20*time.Millisecond)
		wantTime("10.1.1.2:80", 0)
		wantTime("10.1.1.3:80", 40*time.Millisecond)
		before := len(p.startsOf(at(node)))
		p.set(at(node), 60*time.Millisecond, nil)
		time.Sleep(5 * time.Second)
		if n := len(p.startsOf(at(node))) - before; n != 1 {
			t.Fatalf("%d checks", n)
		}
		wantTime(node, 30*time.Millisecond) // a new one counts a quarter
		p.set(at(node), time.Second, errRefused)
		time.Sleep(5 * time.Second)
		wantTime(node, 30*time.Millisecond)

		n := checked("10.1.1.3:80", "tcp", "aside")
		n.Instances[1].Spec.Kind = UDP
		s.Apply([]Node{checked(node), n})
		wantTime(node, 0) // nothing monitors it any more
		p.set(at("10.1.1.3:80"), time.Second, nil)
		time.Sleep(10 * time.Second)
		if got := h.Of(at("10.1.1.3:80")).Probed(); got < 200*time.Millisecond { // of tcp alone
			t.Errorf("it answers in %s", got)
		}
	})
	for want, list := range map[bool][]Spec{
		true:  {{Kind: TCP}, {Kind: HTTP}, {Kind: HTTPS}, {Kind: Echo}, {Kind: ICMP}, {Kind: UDP, Recv: "."}},
		false: {{Kind: UDP}, {Kind: UDP, Send: "x"}, {Kind: External}},
	} {
		for _, spec := range list {
			if spec.measures() != want {
				t.Errorf("%+v measures: %t", spec, !want)
			}
		}
	}
}
