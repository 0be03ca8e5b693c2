package monitor

import (
	"bufio"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"bigpipe/dataplane/pool"
)

// acceptor is set in the process that takes the connections of a benchmark, so that they cost this one nothing.
const acceptor = "MONITOR_BENCH_ACCEPTOR"

// accept takes connections, answers requests, and ends when its standard input does.
func accept() {
	l, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		panic(err)
	}
	fmt.Println(l.Addr().(*net.TCPAddr).Port)
	go func() {
		_, _ = os.Stdin.Read(make([]byte, 1))
		os.Exit(0)
	}()
	for {
		c, err := l.Accept()
		if err != nil {
			panic(err)
		}
		go func() {
			defer c.Close()
			if n, _ := c.Read(make([]byte, 512)); n > 0 {
				_, _ = c.Write([]byte("HTTP/1.0 200 OK\r\n\r\nok"))
			}
		}()
	}
}

// BenchmarkChecks runs 5,000 checks at an interval of 5 s, and says what share of a core they take (percent), and the time of a
// processor for each (us/check). One iteration is one interval.
func BenchmarkChecks(b *testing.B) {
	for _, kind := range []struct {
		name string
		spec Spec
	}{
		{"tcp", Spec{Kind: TCP}},
		{"http", Spec{Kind: HTTP, Send: "GET /", Host: "h", Recv: "ok"}},
	} {
		b.Run(kind.name, func(b *testing.B) { benchmarkChecks(b, kind.spec) })
	}
}

func benchmarkChecks(b *testing.B, spec Spec) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), acceptor+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	defer cmd.Wait()
	defer in.Close()
	var port uint16
	if _, err := fmt.Fscan(bufio.NewReader(out), &port); err != nil {
		b.Fatal(err)
	}
	p, err := NewProber(nil)
	if err != nil {
		b.Fatal(err)
	}
	s := New(Options{Health: &pool.Healths{}, Prober: p, Log: slog.New(slog.DiscardHandler)})
	defer s.Close()
	spec.Interval, spec.Timeout = 5*time.Second, 16*time.Second
	var nodes []Node
	for i := range 5000 {
		spec.Dial = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 1, byte(i / 250), byte(1 + i%250)}), port)
		nodes = append(nodes, Node{Addr: spec.Dial, Instances: []Instance{{Monitor: "m", Enabled: true, Target: spec.Dial, Spec: spec}}})
	}
	s.Apply(nodes)
	time.Sleep(6 * time.Second) // the first starts are over
	probes, used, begin := s.Counts().Probes, processor(), time.Now()
	for b.Loop() {
		time.Sleep(spec.Interval)
	}
	n, cpu := s.Counts().Probes-probes, processor()-used
	b.ReportMetric(100*cpu.Seconds()/time.Since(begin).Seconds(), "percent")
	b.ReportMetric(float64(cpu.Microseconds())/float64(n), "us/check")
	b.ReportMetric(float64(n)/time.Since(begin).Seconds(), "checks/s")
	if c := s.Counts(); c.Failed > 0 || c.Ups != 5000 {
		b.Errorf("counts %+v", c)
	}
}

// processor is the time that this process has used, of its own and in the kernel.
func processor() time.Duration {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}
