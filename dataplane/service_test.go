package dataplane

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	pb "bigpipe/proto/bigpipe/v1"
)

// startRun runs a dataplane on a socket and returns a client of it.
func startRun(t *testing.T, dir, addresses string) (pb.DataplaneClient, *Engine) {
	t.Helper()
	m := &AddressMap{}
	if err := m.Add(addresses); err != nil {
		t.Fatal(err)
	}
	socket := "unix://" + filepath.Join(dir, "d.sock")
	ready, done := make(chan *Engine, 1), make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		done <- Run(ctx, Options{
			EngineOptions: EngineOptions{StateDir: filepath.Join(dir, "state"), Addresses: m, Log: slog.New(slog.DiscardHandler)},
			Listen:        socket, DrainTimeout: time.Millisecond, Ready: func(e *Engine) { ready <- e },
		})
	}()
	var engine *Engine
	select {
	case engine = <-ready:
	case err := <-done:
		t.Fatal(err)
	}
	conn, err := grpc.NewClient(socket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		conn.Close()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return pb.NewDataplaneClient(conn), engine
}

func push(t *testing.T, c pb.DataplaneClient, pieces ...*pb.ApplyRequest) (*pb.ApplyReply, error) {
	t.Helper()
	stream, err := c.Apply(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pieces {
		if err := stream.Send(p); err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
	}
	return stream.CloseAndRecv()
}

func full(revision uint64) *pb.ApplyHeader {
	return &pb.ApplyHeader{Protocol: pb.ApplyProtocol, StoreId: storeID, Full: true, Revision: revision}
}

func TestService(t *testing.T) {
	a, b := newMember(t, "a", false), newMember(t, "b", false)
	c, engine := startRun(t, t.TempDir(), mapped)
	s := &site{t: t, engine: engine}
	if st, err := c.Status(t.Context(), &pb.StatusRequest{}); err != nil || st.GetStoreId() != "" {
		t.Errorf("before anything is applied: %v, %v", st, err)
	}
	reply, err := push(t, c, &pb.ApplyRequest{Header: full(5), Changed: []*pb.Object{simplePool("p", 60, a.addr(), b.addr())}},
		&pb.ApplyRequest{Changed: []*pb.Object{virtualServer(web, "p"), virtualServer("192.0.2.1:80", "p")}})
	if err != nil || reply.GetRevision() != 5 || reasons(reply.GetNotInEffect()) != "virtual/192.0.2.1:80: address not available" {
		t.Fatalf("reply %v, %v", reply, err)
	}
	_, open := s.visit(web)

	t.Run("errors", func(t *testing.T) {
		tests := map[codes.Code][]*pb.ApplyRequest{
			codes.Aborted:            {{Header: &pb.ApplyHeader{Protocol: pb.ApplyProtocol, StoreId: storeID, BaseRevision: 4, Revision: 6}}},
			codes.FailedPrecondition: {{Header: &pb.ApplyHeader{Protocol: pb.ApplyProtocol, StoreId: "x", Full: true}}},
			codes.InvalidArgument:    {{Changed: []*pb.Object{plainPool("q")}}, {Header: full(6)}},
		}
		for code, pieces := range tests {
			if _, err := push(t, c, pieces...); status.Code(err) != code {
				t.Errorf("error %v, want %s", err, code)
			}
		}
		if _, err := push(t, c, &pb.ApplyRequest{Header: full(6)}, &pb.ApplyRequest{Header: full(7)}); status.Code(err) != codes.InvalidArgument {
			t.Errorf("two headers: %v", err)
		}
	})
	t.Run("records", func(t *testing.T) {
		list := listRecords(t, c, &pb.RecordFilter{})
		if len(list) != 1 || list[0].GetPool() != "p" || list[0].GetKey() != "127.0.0.1" || list[0].GetVirtual() != web ||
			list[0].GetNode() != a.addr() || list[0].GetConnections() != 1 || list[0].ExpiresInSeconds == nil {
			t.Fatalf("records %v", list)
		}
		filters := []struct {
			filter *pb.RecordFilter
			n      int
		}{
			{&pb.RecordFilter{Pool: new("p"), Client: new("127.0.0.0/8"), Node: new("127.0.0.1"), Virtual: new(web), Mode: pb.PersistMode_PERSIST_MODE_SIMPLE.Enum(), OlderSeconds: new(uint64(0))}, 1},
			{&pb.RecordFilter{Pool: new("q")}, 0},
			{&pb.RecordFilter{Client: new("127.0.0.2")}, 0},
			{&pb.RecordFilter{Node: new(b.addr())}, 0},
			{&pb.RecordFilter{Virtual: new("")}, 0},
			{&pb.RecordFilter{Virtual: new("10.0.0.1:*")}, 0},
			{&pb.RecordFilter{Mode: pb.PersistMode_PERSIST_MODE_SSL.Enum()}, 0},
			{&pb.RecordFilter{OlderSeconds: new(uint64(1000))}, 0},
		}
		for _, f := range filters {
			if got := listRecords(t, c, f.filter); len(got) != f.n {
				t.Errorf("%v chooses %d records, want %d", f.filter, len(got), f.n)
			}
			if f.n == 0 {
				if got, err := c.ClearRecords(t.Context(), &pb.ClearRecordsRequest{Filter: f.filter}); err != nil || got.GetCleared() != 0 {
					t.Errorf("%v clears %v, %v", f.filter, got, err)
				}
			}
		}
		for _, bad := range []*pb.RecordFilter{{Client: new("zz")}, {Node: new("zz")}, {Mode: pb.PersistMode_PERSIST_MODE_NONE.Enum()}} {
			if _, err := c.ClearRecords(t.Context(), &pb.ClearRecordsRequest{Filter: bad}); status.Code(err) != codes.InvalidArgument {
				t.Errorf("%v: %v", bad, err)
			}
		}
	})
	t.Run("explain", func(t *testing.T) {
		got, err := c.Explain(t.Context(), &pb.ExplainRequest{Pool: "p", Client: "127.0.0.1"})
		text := strings.Join(got.GetSteps(), "\n")
		if err != nil || got.GetMember() != a.addr() || !strings.Contains(text, "first that can reach pool p") || !strings.Contains(text, "names "+a.addr()) {
			t.Errorf("%v, %v", got, err)
		}
		if _, err := c.Explain(t.Context(), &pb.ExplainRequest{Pool: "none", Client: "127.0.0.1"}); status.Code(err) != codes.NotFound {
			t.Errorf("unknown pool: %v", err)
		}
		for _, bad := range []*pb.ExplainRequest{
			{Pool: "p", Client: "x"},
			{Pool: "p", Client: "::1", Cookie: new("a\r\nb")},
			{Pool: "p", Client: "::1", Virtual: new("x")},
			{Pool: "p", Client: "::1", Destination: new("x")},
		} {
			if _, err := c.Explain(t.Context(), bad); status.Code(err) != codes.InvalidArgument {
				t.Errorf("%v: %v", bad, err)
			}
		}
	})
	t.Run("forecast", func(t *testing.T) {
		got, err := c.Forecast(t.Context(), &pb.ForecastRequest{Node: "127.0.0.1"})
		if err != nil || len(got.GetMembers()) != 2 {
			t.Fatalf("%v, %v", got, err)
		}
		first, second := got.GetMembers()[0], got.GetMembers()[1]
		if first.GetClients() != 1 || first.GetConnections() != 1 || first.GetEmptyInSeconds() < 50 || second.GetClients() != 0 || second.LastSeenSeconds != nil ||
			second.EmptyInSeconds == nil || second.GetEmptyInSeconds() != 0 {
			t.Errorf("%v", got)
		}
		if got, err := c.Forecast(t.Context(), &pb.ForecastRequest{Node: b.addr()}); err != nil || len(got.GetMembers()) != 1 {
			t.Errorf("%v, %v", got, err)
		}
	})
	t.Run("connections", func(t *testing.T) {
		stream, err := c.ListConnections(t.Context(), &pb.ListConnectionsRequest{Virtual: new("10.0.0.1"), Client: new("127.0.0.0/8")})
		if err != nil {
			t.Fatal(err)
		}
		got, err := stream.Recv()
		if err != nil || len(got.GetConnections()) != 1 {
			t.Fatalf("%v, %v", got, err)
		}
		if l := got.GetConnections()[0]; l.GetVirtual() != web || l.GetNode() != a.addr() || l.GetProtocol() != "tcp" || l.GetClient() != open.LocalAddr().String() {
			t.Errorf("%v", l)
		}
	})
	t.Run("statistics", func(t *testing.T) { testStatistics(t, c, a, b) })
	t.Run("clear", func(t *testing.T) {
		got, err := c.ClearRecords(t.Context(), &pb.ClearRecordsRequest{Filter: &pb.RecordFilter{Virtual: new(web)}})
		if err != nil || got.GetCleared() != 1 {
			t.Errorf("%v, %v", got, err)
		}
		if list := listRecords(t, c, nil); len(list) != 0 {
			t.Errorf("left: %v", list)
		}
		if st := engine.records.Stats(); st.Records != 0 || st.Cleared != 1 || st.Expired != 0 {
			t.Errorf("the table: %+v", st)
		}
		echo(t, open, "goes on")
	})
}

func testStatistics(t *testing.T, c pb.DataplaneClient, a, b *member) {
	get := func(req *pb.StatisticsRequest) *pb.StatisticsReply {
		got, err := c.Statistics(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	all := get(&pb.StatisticsRequest{})
	if len(all.GetVirtuals()) != 2 || len(all.GetPools()) != 1 || len(all.GetNodes()) != 1 || all.GetUnit().GetRecords() != 1 ||
		all.GetUnit().GetConnections().GetTotal() != 1 {
		t.Errorf("all: %v", all)
	}
	if v := all.GetVirtuals()[0]; v.GetAddress() != web || v.GetProtocol() != "tcp" || !v.GetInEffect() || v.GetConnections().GetCurrent() != 1 {
		t.Errorf("virtual server: %v", v)
	}
	if v := all.GetVirtuals()[1]; v.GetInEffect() || v.GetReason() != "address not available" {
		t.Errorf("virtual server: %v", v)
	}
	p := all.GetPools()[0]
	if m := p.GetMembers()[0]; m.GetAddress() != a.addr() || m.GetState() != pb.MemberState_MEMBER_STATE_UNCHECKED || m.GetConnections().GetTotal() != 1 {
		t.Errorf("member: %v", m)
	}
	if p.GetPersistence().GetBound() != 1 || p.GetPersistence().GetNone() != 1 || p.GetRecords() != 1 {
		t.Errorf("persistence: %v", p)
	}
	if n := get(&pb.StatisticsRequest{Node: new(b.addr())}); len(n.GetNodes()) != 1 || n.GetNodes()[0].GetAddress() != b.addr() ||
		len(n.GetPools()) != 1 || len(n.GetPools()[0].GetMembers()) != 1 || len(n.GetVirtuals()) != 0 {
		t.Errorf("node: %v", n)
	}
	if v := get(&pb.StatisticsRequest{Virtual: new(web)}); len(v.GetVirtuals()) != 1 || len(v.GetPools()) != 0 {
		t.Errorf("one virtual server: %v", v)
	}
	if _, err := c.Statistics(t.Context(), &pb.StatisticsRequest{Node: new("zz")}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a bad node: %v", err)
	}
	if _, err := c.ResetStatistics(t.Context(), &pb.ResetStatisticsRequest{Node: new("zz")}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a bad node: %v", err)
	}
	if _, err := c.Forecast(t.Context(), &pb.ForecastRequest{Node: "zz"}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a bad node: %v", err)
	}
	if _, err := c.ResetStatistics(t.Context(), &pb.ResetStatisticsRequest{}); err != nil {
		t.Fatal(err)
	}
	all = get(&pb.StatisticsRequest{})
	if n := all.GetVirtuals()[0].GetConnections(); n.GetTotal() != 0 || n.GetCurrent() != 1 || n.GetMax() != 1 {
		t.Errorf("after a reset: %v", n)
	}
	if p := all.GetPools()[0]; p.GetPersistence().GetBound() != 0 || p.GetMembers()[0].GetConnections().GetTotal() != 0 {
		t.Errorf("after a reset: %v", p)
	}
}

func listRecords(t *testing.T, c pb.DataplaneClient, f *pb.RecordFilter) (list []*pb.Record) {
	t.Helper()
	stream, err := c.ListRecords(t.Context(), &pb.ListRecordsRequest{Filter: f})
	if err != nil {
		t.Fatal(err)
	}
	for {
		reply, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return list
		}
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, reply.GetRecords()...)
	}
}

func TestListen(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "sub", "d.sock")
	l, err := Listen(t.Context(), "unix://"+path, false)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o660 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if _, err := Listen(t.Context(), "unix://"+path, false); err == nil || !strings.Contains(err.Error(), "another process") {
		t.Errorf("a socket that is served: %v", err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
	l, err = Listen(t.Context(), "unix://"+path, false)
	if err != nil {
		t.Fatalf("a socket that nobody serves: %v", err)
	}
	l.Close()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Listen(t.Context(), "unix://"+file, false); err == nil || !strings.Contains(err.Error(), "not a socket") {
		t.Errorf("a file: %v", err)
	}
	if _, err := Listen(t.Context(), "127.0.0.1:0", false); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("TCP without TLS: %v", err)
	}
	if err := Run(t.Context(), Options{Listen: "127.0.0.1:0"}); err == nil {
		t.Error("Run begins without an address that may be used")
	}
}

// Who reaches the service finds the virtual servers ready: it does not listen while what was applied last is still being read.
func TestServiceListensLast(t *testing.T) {
	dir := t.TempDir()
	before, err := lockDir(dir, patience) // a process that ends
	if err != nil {
		t.Fatal(err)
	}
	log := &logged{}
	socket := filepath.Join(dir, "d.sock")
	ctx, cancel := context.WithCancel(context.Background())
	ready, done := make(chan struct{}), make(chan error, 1)
	go func() {
		done <- Run(ctx, Options{
			EngineOptions: EngineOptions{StateDir: dir, Log: log.logger()}, Listen: "unix://" + socket,
			Ready: func(*Engine) { close(ready) },
		})
	}()
	reached := func() bool {
		c, err := net.Dial("unix", socket)
		if err != nil {
			return false
		}
		c.Close()
		return true
	}
	time.Sleep(lockInterval) // it waits for the directory
	for range 10 {
		if reached() {
			t.Fatal("it listens before it has begun")
		}
		time.Sleep(lockInterval / 10)
	}
	before.Close()
	<-ready
	if !reached() {
		t.Error("it is ready and does not listen")
	}
	// A second one says so before it does anything.
	if err := Run(ctx, Options{EngineOptions: EngineOptions{StateDir: t.TempDir()}, Listen: "unix://" + socket}); err == nil ||
		!strings.Contains(err.Error(), "another process serves it") {
		t.Errorf("a second one: %v", err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(socket); !os.IsNotExist(err) {
		t.Errorf("the socket's path stays: %v", err)
	}
}

// BenchmarkDelta measures one changed pool among 10,000 pools and virtual servers, which do not listen.
func BenchmarkDelta(b *testing.B) {
	s := newSite(b, b.TempDir(), "")
	var list []*pb.Object
	for i := range 10_000 {
		name := fmt.Sprint("p", i)
		vs := virtualServer(fmt.Sprintf("10.%d.%d.1:80", i/256, i%256), name)
		vs.GetVirtual().Enabled = new(false)
		list = append(list, simplePool(name, 60, fmt.Sprintf("10.200.%d.%d:80", i/256, i%256), "10.201.0.1:80", "10.201.0.2:80", "10.201.0.3:80"), vs)
	}
	start := time.Now()
	s.apply(list...)
	whole := time.Since(start)
	for b.Loop() {
		s.apply(simplePool("p77", uint32(s.revision), "10.200.0.77:80"))
	}
	b.ReportMetric(float64(whole.Milliseconds()), "ms/full")
}
