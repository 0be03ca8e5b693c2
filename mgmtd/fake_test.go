package mgmtd

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"bigpipe/grammar"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fakeDataplane is a dataplane that keeps what it is told and forwards nothing.
type fakeDataplane struct {
	pb.UnimplementedDataplaneServer
	address string
	server  *grpc.Server

	mu       sync.Mutex
	storeID  string
	applied  stamp
	objects  map[string]*pb.Object
	applies  []*pb.ApplyHeader
	messages int
	cleared  []*pb.RecordFilter
	resets   int
	// What it answers.
	refuse      error
	notInEffect map[string]string
	records     []*pb.Record
	recordCount int
	links       []*pb.Connection
	stats       *pb.StatisticsReply
	states      []*pb.NodeState
	forecast    []*pb.ForecastMember
	// deny is how it refuses Explain and Forecast.
	deny error
	// hung is set when it answers no question.
	hung bool
	// gate, where it is not nil, is received from before each Apply answers.
	gate chan struct{}
}

func newFake(t *testing.T) *fakeDataplane {
	t.Helper()
	dir, err := os.MkdirTemp("", "bp")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return &fakeDataplane{address: "unix://" + filepath.Join(dir, "dp.sock"), objects: map[string]*pb.Object{}, notInEffect: map[string]string{}}
}

func startFake(t *testing.T) *fakeDataplane {
	t.Helper()
	d := newFake(t)
	d.start(t)
	return d
}

func (d *fakeDataplane) start(t *testing.T) {
	t.Helper()
	l, err := net.Listen("unix", strings.TrimPrefix(d.address, "unix://"))
	if err != nil {
		t.Fatal(err)
	}
	d.server = grpc.NewServer(
		grpc.UnaryInterceptor(func(ctx context.Context, r any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
			if err := d.stall(ctx, info.FullMethod); err != nil {
				return nil, err
			}
			return next(ctx, r)
		}),
		grpc.StreamInterceptor(func(server any, stream grpc.ServerStream, info *grpc.StreamServerInfo, next grpc.StreamHandler) error {
			if err := d.stall(stream.Context(), info.FullMethod); err != nil {
				return err
			}
			return next(server, stream)
		}))
	pb.RegisterDataplaneServer(d.server, d)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = d.server.Serve(l)
	}()
	server := d.server
	t.Cleanup(func() { server.Stop(); <-done })
}

// stall keeps a call until the caller gives it up, where the dataplane is hung; pushes go through.
func (d *fakeDataplane) stall(ctx context.Context, method string) error {
	d.mu.Lock()
	hung := d.hung && !strings.HasSuffix(method, "/Apply") && !strings.HasSuffix(method, "/Status")
	d.mu.Unlock()
	if !hung {
		return nil
	}
	<-ctx.Done()
	return ctx.Err()
}

// stop ends the server; it can be started again.
func (d *fakeDataplane) stop() { d.server.Stop() }

// forget is a restart without a state on disk.
func (d *fakeDataplane) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.storeID, d.applied, d.objects = "", stamp{}, map[string]*pb.Object{}
}

func (d *fakeDataplane) set(fn func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	fn()
}

func (d *fakeDataplane) Apply(stream grpc.ClientStreamingServer[pb.ApplyRequest, pb.ApplyReply]) error {
	var header *pb.ApplyHeader
	changed, deleted, messages := []*pb.Object{}, []string{}, 0
	for {
		r, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		messages++
		if header == nil {
			header = r.GetHeader()
		}
		changed, deleted = append(changed, r.GetChanged()...), append(deleted, r.GetDeleted()...)
	}
	d.mu.Lock()
	gate := d.gate
	d.mu.Unlock()
	if gate != nil {
		select {
		case <-gate:
		case <-stream.Context().Done():
			return stream.Context().Err()
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.applies, d.messages = append(d.applies, header), messages
	switch base := (stamp{header.GetBaseRevision(), header.GetBaseSequence()}); {
	case d.refuse != nil:
		return d.refuse
	case header.GetFull():
		d.objects = map[string]*pb.Object{}
	case d.storeID != header.GetStoreId() || base != d.applied:
		return status.Error(codes.Aborted, "another base")
	}
	for _, o := range changed {
		d.objects[o.Key()] = o
	}
	for _, key := range deleted {
		delete(d.objects, key)
	}
	d.storeID, d.applied = header.GetStoreId(), stamp{header.GetRevision(), header.GetSequence()}
	return stream.SendAndClose(&pb.ApplyReply{Revision: d.applied.revision, Sequence: d.applied.sequence, NotInEffect: d.faults()})
}

func (d *fakeDataplane) faults() []*pb.NotInEffect {
	var list []*pb.NotInEffect
	for key, reason := range d.notInEffect {
		if d.objects[key] != nil {
			list = append(list, &pb.NotInEffect{Key: key, Reason: reason})
		}
	}
	slices.SortFunc(list, func(a, b *pb.NotInEffect) int { return strings.Compare(a.Key, b.Key) })
	return list
}

func (d *fakeDataplane) Status(context.Context, *pb.StatusRequest) (*pb.StatusReply, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return &pb.StatusReply{StoreId: d.storeID, Revision: d.applied.revision, Sequence: d.applied.sequence, NotInEffect: d.faults()}, nil
}

func (d *fakeDataplane) ListRecords(r *pb.ListRecordsRequest, stream grpc.ServerStreamingServer[pb.ListRecordsReply]) error {
	d.mu.Lock()
	records, count := d.records, d.recordCount
	d.mu.Unlock()
	var chosen []*pb.Record
	for _, record := range records {
		if f := r.GetFilter(); f.GetPool() == "" || f.GetPool() == record.GetPool() {
			chosen = append(chosen, record)
		}
	}
	if err := stream.Send(&pb.ListRecordsReply{Records: chosen}); err != nil {
		return err
	}
	for sent := 0; sent < count; sent += 1000 {
		reply := &pb.ListRecordsReply{}
		for i := range min(1000, count-sent) {
			reply.Records = append(reply.Records, &pb.Record{Pool: "web", Mode: pb.PersistMode_PERSIST_MODE_SIMPLE, Key: "127.0.0.1", AgeSeconds: uint64(sent + i)})
		}
		if err := stream.Send(reply); err != nil {
			return err
		}
	}
	return nil
}

func (d *fakeDataplane) ClearRecords(_ context.Context, r *pb.ClearRecordsRequest) (*pb.ClearRecordsReply, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cleared = append(d.cleared, r.GetFilter())
	return &pb.ClearRecordsReply{Cleared: uint64(len(d.records))}, nil
}

func (d *fakeDataplane) Explain(_ context.Context, r *pb.ExplainRequest) (*pb.ExplainReply, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.deny != nil {
		return nil, d.deny
	}
	return &pb.ExplainReply{Member: "10.1.1.1:80", Outcome: "none", Steps: []string{"pool " + r.GetPool(), "no record of " + r.GetClient()}}, nil
}

func (d *fakeDataplane) Forecast(_ context.Context, r *pb.ForecastRequest) (*pb.ForecastReply, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.deny != nil || d.forecast != nil {
		return &pb.ForecastReply{Members: d.forecast}, d.deny
	}
	last := uint64(9)
	return &pb.ForecastReply{Members: []*pb.ForecastMember{{Pool: "web", Node: r.GetNode(), Clients: 3, LastSeenSeconds: &last, Connections: 1, PersistMode: pb.PersistMode_PERSIST_MODE_SIMPLE}}}, nil
}

func (d *fakeDataplane) ListConnections(_ *pb.ListConnectionsRequest, stream grpc.ServerStreamingServer[pb.ListConnectionsReply]) error {
	return stream.Send(&pb.ListConnectionsReply{Connections: d.links})
}

func (d *fakeDataplane) Statistics(context.Context, *pb.StatisticsRequest) (*pb.StatisticsReply, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.stats == nil {
		return &pb.StatisticsReply{}, nil
	}
	return d.stats, nil
}

// WatchStates sends its states and ends.
func (d *fakeDataplane) WatchStates(_ *pb.WatchStatesRequest, stream grpc.ServerStreamingServer[pb.NodeState]) error {
	d.mu.Lock()
	states := d.states
	d.mu.Unlock()
	for _, s := range states {
		if err := stream.Send(s); err != nil {
			return err
		}
	}
	return nil
}

func (d *fakeDataplane) ResetStatistics(context.Context, *pb.ResetStatisticsRequest) (*pb.ResetStatisticsReply, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.resets++
	return &pb.ResetStatisticsReply{}, nil
}

// admin is a running server with a client of it.
type admin struct {
	t      *testing.T
	path   string
	store  *store.Bolt
	server *Server
	client pb.AdminClient
	stop   func()
}

// startAdmin runs a server on a store at path ("" for a new one) and the given dataplanes, called dp0, dp1, ...
func startAdmin(t *testing.T, path string, dataplanes ...*fakeDataplane) *admin {
	t.Helper()
	return startAdminWith(t, Config{}, path, dataplanes...)
}

// startAdminWith is startAdmin with settings.
func startAdminWith(t *testing.T, c Config, path string, dataplanes ...*fakeDataplane) *admin {
	t.Helper()
	if path == "" {
		path = filepath.Join(t.TempDir(), "config.db")
	}
	s, err := store.Open(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	c.Store, c.Version, c.EffectTimeout = s, "test", 10*time.Second
	for i, d := range dataplanes {
		c.Dataplanes = append(c.Dataplanes, Dataplane{Name: "dp" + string(rune('0'+i)), Address: d.address})
	}
	server, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := grpc.NewServer()
	pb.RegisterAdminServer(g, server)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { server.Run(ctx) })
	wg.Go(func() { _ = g.Serve(l) })
	conn, err := grpc.NewClient(l.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	a := &admin{t: t, path: path, store: s, server: server, client: pb.NewAdminClient(conn)}
	a.stop = sync.OnceFunc(func() {
		conn.Close()
		g.Stop()
		cancel()
		wg.Wait()
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(a.stop)
	return a
}

// reply is all that an Execute says.
type reply struct {
	exit        uint32
	out         string
	diagnostics []*pb.Diagnostic
	result      *pb.ExecuteResult
}

// errors is what the client would show on standard error.
func (r reply) errors() string {
	var b bytes.Buffer
	grammar.Render(&b, r.diagnostics, false)
	return b.String()
}

func (a *admin) execute(h *pb.ExecuteHeader, text string) reply {
	a.t.Helper()
	stream, err := a.client.Execute(context.Background())
	if err != nil {
		a.t.Fatal(err)
	}
	h.Actor = "root"
	piece := &pb.ExecuteRequest{Header: h}
	for {
		n := min(len(text), 100<<10)
		piece.Text, text = []byte(text[:n]), text[n:]
		if err := stream.Send(piece); err != nil {
			break // the reply says why
		}
		if text == "" {
			break
		}
		piece = &pb.ExecuteRequest{}
	}
	if err := stream.CloseSend(); err != nil {
		a.t.Fatal(err)
	}
	var r reply
	var out strings.Builder
	for {
		piece, err := stream.Recv()
		if err != nil {
			a.t.Fatal(err)
		}
		out.Write(piece.GetOutput())
		r.diagnostics = append(r.diagnostics, piece.GetDiagnostics()...)
		if r.result = piece.GetResult(); r.result != nil {
			r.exit, r.out = r.result.GetExitStatus(), out.String()
			return r
		}
	}
}

func (a *admin) command(text string) reply {
	a.t.Helper()
	return a.execute(&pb.ExecuteHeader{Mode: pb.ExecuteMode_EXECUTE_MODE_COMMAND}, text)
}

func (a *admin) json(text string) reply {
	a.t.Helper()
	return a.execute(&pb.ExecuteHeader{Mode: pb.ExecuteMode_EXECUTE_MODE_COMMAND, Output: pb.OutputFormat_OUTPUT_FORMAT_JSON}, text)
}

func (a *admin) load(text string) reply {
	a.t.Helper()
	return a.execute(&pb.ExecuteHeader{Mode: pb.ExecuteMode_EXECUTE_MODE_LOAD, Origin: &pb.Position{File: "bigip.conf", Line: 1, Column: 1}}, text)
}

// must runs a command that has to succeed and returns its output.
func (a *admin) must(text string) string {
	a.t.Helper()
	r := a.command(text)
	if r.exit != 0 {
		a.t.Fatalf("%s: exit %d\n%s%v", text, r.exit, r.errors(), r.result)
	}
	return r.out
}

// mustLoad loads text and returns the reply.
func (a *admin) mustLoad(text string) reply {
	a.t.Helper()
	r := a.load(text)
	if r.exit != 0 {
		a.t.Fatalf("load: exit %d\n%s%v", r.exit, r.errors(), r.result)
	}
	return r
}

// eventually waits for a condition that must come.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
	}
}

const smallSite = `pool web {
   persist_mode simple
   simple_timeout 300
   member 127.0.1.1:9001
   member 127.0.1.2:9001
}
virtual 127.0.10.1:8080 { use pool web }
`
