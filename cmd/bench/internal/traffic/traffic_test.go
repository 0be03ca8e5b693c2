package traffic

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"bigpipe/dataplane/tlshello"
)

// serveOrigin runs an origin of two threads on a free port of loopback until the test ends.
func serveOrigin(t *testing.T) netip.AddrPort {
	t.Helper()
	probe, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := probe.Addr().(*net.TCPAddr).AddrPort()
	probe.Close()
	origin, err := Listen([]netip.AddrPort{addr}, 2)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- origin.Serve(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("origin: %v", err)
		}
	})
	return addr
}

func TestExchangesAreAnsweredInFull(t *testing.T) {
	addr := serveOrigin(t)
	got, err := Exchanges(t.Context(), Load{
		Target: addr, Sources: []netip.Addr{netip.MustParseAddr("127.0.0.2"), netip.MustParseAddr("127.0.0.3")},
		Parallel: 5, Threads: 2, Duration: 200 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	if got.Operations == 0 || got.Errors != 0 {
		t.Errorf("operations %d, errors %d (%s): want some and none", got.Operations, got.Errors, got.FirstError)
	}
	if got.Bytes < got.Operations*MessageSize {
		t.Errorf("%d bytes for %d exchanges: want at least %d each", got.Bytes, got.Operations, MessageSize)
	}
	if got.P50 <= 0 || got.P99 < got.P50 {
		t.Errorf("p50 %v us, p99 %v us", got.P50, got.P99)
	}
}

// What sessions are resumed with are hellos, as a reader of TLS sees them.
func TestSessions(t *testing.T) {
	addr := serveOrigin(t)
	got, err := Exchanges(t.Context(), Load{Target: addr, Sessions: 3, Parallel: 5, Threads: 2, Duration: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if got.Operations == 0 || got.Errors != 0 || got.Bytes < got.Operations*int64(helloSize) {
		t.Errorf("%+v: want no errors, and %d bytes for each operation at least", got, helloSize)
	}
	conn, err := net.Dial("tcp", addr.String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	id := session(7)
	asked := clientHello(id)
	if _, err := conn.Write(asked); err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	var client tlshello.Client
	var server tlshello.Server
	if client.Feed(asked) != tlshello.Complete || !bytes.Equal(client.ID(), id[:]) {
		t.Errorf("the client's hello is %s, with ID %x", client.State(), client.ID())
	}
	if server.Feed(answer)&tlshello.NewSession == 0 || !bytes.Equal(server.ID(), id[:]) || server.TLS13() {
		t.Errorf("the server's hello %x has ID %x", answer, server.ID())
	}
}

func TestExchangesEndWhenNobodyAnswers(t *testing.T) {
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := closed.Addr().(*net.TCPAddr).AddrPort()
	closed.Close()
	_, err = Exchanges(t.Context(), Load{Target: addr, Parallel: 2, Threads: 1, Duration: time.Minute})
	if err == nil || !strings.Contains(err.Error(), "connections failed") {
		t.Errorf("error %v: want the number of failed connections", err)
	}
}

func TestExchangesCountAShortAnswer(t *testing.T) {
	short, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer short.Close()
	go func() {
		for {
			conn, err := short.Accept()
			if err != nil {
				return
			}
			_, _ = conn.Read(make([]byte, MessageSize))
			_, _ = conn.Write([]byte("short"))
			conn.Close()
		}
	}()
	got, err := Exchanges(t.Context(), Load{
		Target: short.Addr().(*net.TCPAddr).AddrPort(), Parallel: 1, Threads: 1, Duration: 100 * time.Millisecond,
	})
	if got.Operations != 0 || got.Errors == 0 || !strings.Contains(got.FirstError, "5 of 64 bytes") {
		t.Errorf("result %+v, error %v: want only errors that name the bytes", got, err)
	}
}

// Requests may come in pieces and several at once; one that asks for it ends the connection.
func TestOriginAnswersGet(t *testing.T) {
	conn, err := net.Dial("tcp", serveOrigin(t).String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	answers := bufio.NewReader(conn)
	for _, step := range []struct {
		send string
		want int // answers
	}{
		{"GET / HTTP/1.1\r\nHost: a\r\n\r\n", 1},
		{"GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\nGET /3 HT", 2},
		{"TP/1.1\r\nHost: a\r\n\r", 0},
		{"\nGET /4 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", 2},
	} {
		if _, err := io.WriteString(conn, step.send); err != nil {
			t.Fatal(err)
		}
		for i := range step.want {
			answer, err := http.ReadResponse(answers, nil)
			if err != nil {
				t.Fatalf("after %q: %v", step.send, err)
			}
			body, err := io.ReadAll(answer.Body)
			answer.Body.Close()
			if err != nil || len(body) != AnswerSize || answer.StatusCode != http.StatusOK {
				t.Errorf("after %q: %s, %q, error %v", step.send, answer.Status, body, err)
			}
			if last := strings.HasSuffix(step.send, "close\r\n\r\n") && i == step.want-1; answer.Close != last {
				t.Errorf("after %q: answer %d says close %v, want %v", step.send, i+1, answer.Close, last)
			}
		}
	}
	if _, err := answers.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("error %v after a request that closes: want the end", err)
	}
}

func TestDatagramsComeBack(t *testing.T) {
	addr := serveOrigin(t)
	got, err := Datagrams(t.Context(), Load{
		Target: addr, Sources: []netip.Addr{netip.MustParseAddr("127.0.0.2"), netip.MustParseAddr("127.0.0.3")},
		Parallel: 5, Threads: 2, Duration: 200 * time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	if got.Operations == 0 || got.Errors != 0 || got.Bytes != got.Operations*MessageSize {
		t.Errorf("%+v: want answers of %d bytes and no errors", got, MessageSize)
	}
	if got.P50 <= 0 || got.P99 < got.P50 {
		t.Errorf("p50 %v us, p99 %v us", got.P50, got.P99)
	}
}

// A member that answers every other datagram, and some with other bytes: what is lost is counted and sent anew.
func TestDatagramsCountLosses(t *testing.T) {
	lossy, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer lossy.Close()
	go func() {
		buffer := make([]byte, 2*MessageSize)
		for i := 0; ; i++ {
			n, from, err := lossy.ReadFrom(buffer)
			if err != nil {
				return
			}
			if i%2 == 0 {
				_, _ = lossy.WriteTo(buffer[:n], from)
			} else if i%3 == 0 {
				_, _ = lossy.WriteTo(buffer[:5], from)
			}
		}
	}()
	got, err := Datagrams(t.Context(), Load{
		Target: lossy.LocalAddr().(*net.UDPAddr).AddrPort(), Parallel: 1, Threads: 1, Duration: 3 * lostAfter,
	})
	if err != nil || got.Operations == 0 || got.Errors == 0 || !strings.Contains(got.FirstError, "no answer") {
		t.Errorf("%+v, error %v: want answers and losses", got, err)
	}
}

func TestDatagramsEndWhenNobodyListens(t *testing.T) {
	closed, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := closed.LocalAddr().(*net.UDPAddr).AddrPort()
	closed.Close()
	got, err := Datagrams(t.Context(), Load{Target: addr, Parallel: 2, Threads: 1, Duration: lostAfter})
	if err == nil && got.Errors == 0 || got.Operations != 0 {
		t.Errorf("%+v, error %v: want errors only", got, err)
	}
}

func TestStreamsCountBytes(t *testing.T) {
	addr := serveOrigin(t)
	got, err := Streams(t.Context(), Load{Target: addr, Parallel: 3, Duration: 200 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if got.Bytes < streamChunk {
		t.Errorf("%d bytes: want more than one chunk", got.Bytes)
	}
}

func TestStreamsReportAnEarlyEnd(t *testing.T) {
	brief, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer brief.Close()
	go func() {
		conn, err := brief.Accept()
		if err != nil {
			return
		}
		_, _ = conn.Read(make([]byte, MessageSize))
		conn.Close()
	}()
	got, err := Streams(t.Context(), Load{Target: brief.Addr().(*net.TCPAddr).AddrPort(), Parallel: 1, Duration: time.Minute})
	if err == nil || got.Errors != 1 {
		t.Errorf("result %+v, error %v: want one error", got, err)
	}
}

func TestHoldIdleKeepsConnectionsOpen(t *testing.T) {
	states := make(chan http.ConnState, 100)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateIdle || s == http.StateClosed {
			states <- s
		}
	}
	server.Start()
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	called := false
	err := HoldIdle(ctx, Load{Target: netip.MustParseAddrPort(server.Listener.Addr().String()), Parallel: 7}, func() error {
		called = true
		for i := range 7 {
			if s := <-states; s != http.StateIdle {
				t.Errorf("connection %d is %v before the end", i, s)
			}
		}
		cancel()
		return nil
	})
	if err != nil || !called {
		t.Errorf("error %v, ready called %v", err, called)
	}
}

func TestHoldIdleReportsWhatIsNotKeptAlive(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Connection", "close")
	}))
	defer server.Close()
	err := HoldIdle(t.Context(), Load{Target: netip.MustParseAddrPort(server.Listener.Addr().String()), Parallel: 1},
		func() error { t.Error("ready without a connection that stays"); return nil })
	if err == nil || !strings.Contains(err.Error(), "close true") {
		t.Errorf("error %v: want that the answer closes", err)
	}
}

// A server that answers some heads that do not end with 408, closes others and leaves one open.
func TestSlowClientsCountHowTheyEnd(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	var conns []net.Conn
	ready := make(chan struct{})
	go func() {
		for range 6 {
			conn, err := server.Accept()
			if err != nil {
				return
			}
			conns = append(conns, conn)
		}
		<-ready
		for i, conn := range conns {
			if b := make([]byte, 1); i < 5 {
				_, _ = io.ReadFull(conn, b)
				if b[0] != slowHead[0] {
					t.Errorf("the first byte is %q", b)
				}
			}
			if i < 3 {
				_, _ = io.WriteString(conn, "HTTP/1.1 408 Request Timeout\r\n\r\n")
			}
			if i < 5 {
				conn.Close()
			}
		}
	}()
	got, err := SlowClients(t.Context(), Load{
		Target: netip.MustParseAddrPort(server.Addr().String()), Parallel: 6, Threads: 1, Duration: 2 * time.Second,
	}, func() error { close(ready); return nil })
	want := SlowResult{Clients: 6, TimedOut: 3, Dropped: 2, Open: 1, First: got.First, Last: got.Last}
	if err != nil || got != want || got.First <= 0 || got.Last < got.First {
		t.Errorf("%+v, error %v; want %+v and times", got, err, want)
	}
}

func TestResultTravelsAsALine(t *testing.T) {
	want := Result{Operations: 3, Bytes: 192, Errors: 1, Seconds: 1.5, P50: 10, P99: 20, FirstError: "x"}
	var line bytes.Buffer
	if err := want.Write(&line); err != nil {
		t.Fatal(err)
	}
	got, err := ReadResult(line.Bytes())
	if err != nil || got != want {
		t.Errorf("got %+v, error %v", got, err)
	}
	if _, err := ReadResult([]byte("panic: x")); err == nil {
		t.Error("a text that is no result must be an error")
	}
}

func TestPercentiles(t *testing.T) {
	times := make([]time.Duration, 0, 101)
	for i := 100; i >= 0; i-- {
		times = append(times, time.Duration(i)*time.Microsecond)
	}
	var r Result
	r.percentiles(times)
	if r.P50 != 50 || r.P99 != 99 {
		t.Errorf("p50 %v, p99 %v: want 50 and 99", r.P50, r.P99)
	}
	r = Result{}
	r.percentiles(nil)
	if r.P50 != 0 || r.P99 != 0 {
		t.Errorf("p50 %v, p99 %v of nothing: want 0", r.P50, r.P99)
	}
}
