package mgmtd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

const (
	// pieceBytes is about how much one message of a stream holds.
	pieceBytes = 512 << 10
	// maxMessage bounds one message that is received.
	maxMessage = 16 << 20

	pollInterval = time.Second
	pollTimeout  = 5 * time.Second
	applyTimeout = 2 * time.Minute
	retryFirst   = 100 * time.Millisecond
	retryMost    = 5 * time.Second
)

// Dataplane is one to push to.
type Dataplane struct {
	// Name tells dataplanes apart in all output.
	Name string
	// Address is unix:///path or host:port.
	Address string
	// Credentials are for TCP; nil means none, which is right for a unix socket.
	Credentials credentials.TransportCredentials
}

// pusher keeps one dataplane at the newest wanted configuration. Its goroutine is run.
type pusher struct {
	name    string
	address string
	storeID string
	conn    *grpc.ClientConn
	client  pb.DataplaneClient
	log     *slog.Logger
	// publisher has what the dataplane is to have.
	publisher *publisher

	mu      sync.Mutex
	state   pushState
	changed chan struct{}
}

// pushState is what is known of a dataplane.
type pushState struct {
	// applied is what it has, if known.
	applied stamp
	known   bool
	// err is why the last attempt failed; "" when it did not.
	err string
	// tried counts attempts; failedFor is the newest configuration that one failed with, and refused is set when the
	// dataplane itself did not want it.
	tried       uint64
	failedFor   stamp
	refused     bool
	notInEffect []*pb.NotInEffect
}

func newPusher(d Dataplane, storeID string, from *publisher, log *slog.Logger) (*pusher, error) {
	creds := d.Credentials
	if creds == nil {
		creds = insecure.NewCredentials()
	}
	conn, err := grpc.NewClient(pb.DialTarget(d.Address),
		grpc.WithTransportCredentials(creds),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: retryFirst, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second},
			MinConnectTimeout: 2 * time.Second,
		}))
	if err != nil {
		return nil, fmt.Errorf("dataplane %s: %w", d.Address, err)
	}
	return &pusher{
		name: d.Name, address: d.Address, storeID: storeID, conn: conn, client: pb.NewDataplaneClient(conn), publisher: from,
		log: log.With("dataplane", d.Name), changed: make(chan struct{}),
	}, nil
}

// run pushes until ctx ends: at once when the wanted configuration changes, again after a failure, and it asks for the
// status in between, which also shows a dataplane that was started anew.
func (p *pusher) run(ctx context.Context) {
	var applied *wanted // what the dataplane has; nil: unknown, it needs everything
	retry := retryFirst
	for ctx.Err() == nil {
		want, changed := p.publisher.watch()
		var err error
		if applied == want {
			applied, err = p.poll(ctx, want)
		} else {
			applied, err = p.push(ctx, applied, want)
		}
		delay := pollInterval
		switch {
		case err != nil:
			delay = retry + rand.N(retry/4+1)
			retry = min(2*retry, retryMost)
		case applied == nil:
			delay = 0
		default:
			retry = retryFirst
		}
		timer := time.NewTimer(delay)
		select {
		case <-ctx.Done():
		case <-changed:
		case <-timer.C:
		}
		timer.Stop()
	}
}

// poll asks what is applied. It returns nil when that is not want.
func (p *pusher) poll(ctx context.Context, want *wanted) (*wanted, error) {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	reply, err := p.client.Status(ctx, &pb.StatusRequest{})
	if err != nil {
		p.failed(want, err, pollTimeout)
		return want, err
	}
	got := stamp{reply.GetRevision(), reply.GetSequence()}
	if reply.GetStoreId() != p.storeID || got != want.stamp {
		return nil, nil
	}
	p.succeeded(want.stamp, reply.GetNotInEffect())
	return want, nil
}

// push sends what differs from applied, or everything when that is nil or the dataplane says that it has something else.
// It returns what the dataplane has afterwards, as far as that is known.
func (p *pusher) push(ctx context.Context, applied, want *wanted) (*wanted, error) {
	reply, err := p.apply(ctx, applied, want)
	if status.Code(err) == codes.Aborted && applied != nil {
		p.log.Info("dataplane has another configuration, sending everything", "revision", want.revision)
		applied = nil
		reply, err = p.apply(ctx, nil, want)
	}
	if err != nil {
		p.failed(want, err, applyTimeout)
		return applied, err
	}
	p.succeeded(want.stamp, reply.GetNotInEffect())
	return want, nil
}

// apply makes one call of Apply.
func (p *pusher) apply(ctx context.Context, from, want *wanted) (*pb.ApplyReply, error) {
	ctx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	stream, err := p.client.Apply(ctx)
	if err != nil {
		return nil, err
	}
	header := &pb.ApplyHeader{
		Protocol: pb.ApplyProtocol, StoreId: p.storeID, Full: from == nil,
		Revision: want.revision, Sequence: want.sequence,
	}
	if from != nil {
		header.BaseRevision, header.BaseSequence = from.revision, from.sequence
	}
	err = sendApply(stream, header, from, want)
	if err != nil && !errors.Is(err, io.EOF) { // after EOF the reply says what is wrong
		return nil, err
	}
	reply, err := stream.CloseAndRecv()
	if err != nil {
		return nil, err
	}
	if got := (stamp{reply.GetRevision(), reply.GetSequence()}); got != want.stamp {
		return nil, status.Errorf(codes.Internal, "applied revision %d.%d, not %d.%d", got.revision, got.sequence, want.revision, want.sequence)
	}
	return reply, nil
}

// sendApply sends the header and the objects in pieces.
func sendApply(stream grpc.ClientStreamingClient[pb.ApplyRequest, pb.ApplyReply], header *pb.ApplyHeader, from, want *wanted) error {
	piece, size := &pb.ApplyRequest{Header: header}, 0
	flush := func(more int) error {
		if size += more; size < pieceBytes {
			return nil
		}
		err := stream.Send(piece)
		piece, size = &pb.ApplyRequest{}, 0
		return err
	}
	var err error
	put := func(o *pb.Object) bool {
		o = config.StripMeta(o)
		piece.Changed = append(piece.Changed, o)
		err = flush(proto.Size(o))
		return err == nil
	}
	if from == nil {
		want.view.Range("", put)
	} else {
		for _, c := range differences(from, want) {
			if c.New != nil {
				put(c.New)
			} else {
				piece.Deleted = append(piece.Deleted, c.Key)
				err = flush(len(c.Key))
			}
			if err != nil {
				break
			}
		}
	}
	if err != nil {
		return err
	}
	return stream.Send(piece)
}

// differences returns how want differs from from.
func differences(from, want *wanted) []config.Change {
	if from.stamp == want.base {
		return want.changes
	}
	return config.Diff(from.view, want.view)
}

func (p *pusher) succeeded(s stamp, notInEffect []*pb.NotInEffect) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state.err != "" || !p.state.known {
		p.log.Info("dataplane is in step", "revision", s.revision)
	}
	p.state.applied, p.state.known, p.state.err, p.state.notInEffect = s, true, "", notInEffect
	p.attempted()
}

func (p *pusher) failed(want *wanted, err error, within time.Duration) {
	text := p.reason(err, within)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state.err != text {
		p.log.Warn("dataplane does not take the configuration", "revision", want.revision, "error", text)
	}
	p.state.err, p.state.failedFor = text, want.stamp
	switch status.Code(err) {
	case codes.FailedPrecondition, codes.InvalidArgument, codes.Unimplemented, codes.ResourceExhausted:
		p.state.refused = true
	default:
		p.state.refused = false
	}
	p.attempted()
}

// reason says why a call failed that might take as long as within, without what gRPC wraps around it.
func (p *pusher) reason(err error, within time.Duration) string {
	st := status.Convert(err)
	text := st.Message()
	switch {
	case st.Code() == codes.Unimplemented && strings.HasPrefix(text, "unknown service"):
		return fmt.Sprintf("what listens at %s is not a dataplane: %s", p.address, text)
	case st.Code() == codes.Unimplemented:
		return fmt.Sprintf("the dataplane at %s is of another release: %s", p.address, text)
	case st.Code() == codes.DeadlineExceeded:
		return noAnswer(within)
	}
	if _, inner, ok := strings.Cut(text, "Error while dialing: "); ok {
		return strings.TrimSuffix(inner, `"`)
	}
	if _, inner, ok := strings.Cut(text, `error reading server preface: `); ok {
		return fmt.Sprintf("what listens at %s does not speak gRPC: %s", p.address, strings.TrimSuffix(inner, `"`))
	}
	return text
}

func noAnswer(within time.Duration) string { return fmt.Sprintf("no answer within %v", within) }

// attempted wakes those who wait for the outcome. mu is held.
func (p *pusher) attempted() {
	p.state.tried++
	close(p.changed)
	p.changed = make(chan struct{})
}

// current returns what is known, and a channel that is closed when that changes.
func (p *pusher) current() (pushState, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state, p.changed
}

// await waits until the dataplane has a configuration, refuses it, or ctx ends. For a dataplane that was already known to be
// away one more attempt is enough.
func (p *pusher) await(ctx context.Context, want stamp) pushState {
	start, changed := p.current()
	away := start.tried > 0 && start.err != ""
	for s := start; ; s, changed = p.current() {
		failed := s.err != "" && s.failedFor.reaches(want)
		if s.has(want) || failed && (s.refused || away && s.tried > start.tried) {
			return s
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return s
		}
	}
}

// has reports whether the dataplane has a configuration or a later one.
func (s pushState) has(want stamp) bool {
	return s.known && s.err == "" && s.applied.reaches(want)
}
