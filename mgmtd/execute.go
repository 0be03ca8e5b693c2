package mgmtd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"bigpipe/grammar"
	"bigpipe/grammar/eval"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store"
	"bigpipe/store/config"
)

const (
	// maxText bounds the text of one Execute, in bytes.
	maxText = 64 << 20
	// diagnosticsEach is how many diagnostics go into one piece of the reply.
	diagnosticsEach = 100
)

// Exit statuses of Execute.
const (
	exitDone        = 0
	exitRefused     = 1
	exitFaulty      = 2
	exitNotInEffect = 3
	// exitDiffers is that of a dry run of a load that would change something.
	exitDiffers = 1
)

// Codes of the diagnostics of this package; those of packages grammar, eval and config come too.
const (
	codeConflict   = "conflict"
	codeNotFound   = "not_found"
	codeRefused    = "refused"
	codeStore      = "store"
	codeLimit      = "limit"
	codeKept       = "kept"
	codePending    = "pending"
	codeUnanswered = "unanswered"
)

// Execute implements the Admin service.
func (s *Server) Execute(stream grpc.BidiStreamingServer[pb.ExecuteRequest, pb.ExecuteReply]) error {
	header, text, err := receive(stream)
	if err != nil {
		return err
	}
	e := &execution{Server: s, header: header, send: stream.Send}
	e.out = &pieces{send: func(b []byte) error { return stream.Send(&pb.ExecuteReply{Output: b}) }}
	if err := e.run(stream.Context(), text); err != nil {
		return err
	}
	if err := e.out.flush(); err != nil {
		return err
	}
	return stream.Send(&pb.ExecuteReply{Result: e.result()})
}

// receive puts the pieces of a request together.
func receive(stream grpc.BidiStreamingServer[pb.ExecuteRequest, pb.ExecuteReply]) (*pb.ExecuteHeader, []byte, error) {
	var header *pb.ExecuteHeader
	var text []byte
	for {
		piece, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, err
		}
		if header == nil {
			if header = piece.GetHeader(); header == nil {
				return nil, nil, status.Error(codes.InvalidArgument, "the first piece has no header")
			}
		}
		if len(text)+len(piece.GetText()) > maxText {
			return nil, nil, status.Errorf(codes.ResourceExhausted, "the text is longer than %d bytes", maxText)
		}
		text = append(text, piece.GetText()...)
	}
	if header == nil {
		return nil, nil, status.Error(codes.InvalidArgument, "the request is empty")
	}
	if header.GetOrigin() == nil {
		header.Origin = &pb.Position{Line: 1, Column: 1}
	}
	return header, text, nil
}

// execution is one Execute while it runs.
type execution struct {
	*Server
	header *pb.ExecuteHeader
	send   func(*pb.ExecuteReply) error
	out    *pieces
	exit   uint32
	// effects are those of the last change, concerning what it touched.
	effects []*pb.DataplaneEffect
}

func (e *execution) json() bool { return e.header.GetOutput() == pb.OutputFormat_OUTPUT_FORMAT_JSON }

func (e *execution) naming() naming { return naming{numeric: e.header.GetNumeric()} }

func (e *execution) result() *pb.ExecuteResult {
	return &pb.ExecuteResult{ExitStatus: e.exit, Revision: e.store.Newest().Revision, Dataplanes: e.effects}
}

// report sends diagnostics.
func (e *execution) report(ds ...*pb.Diagnostic) error {
	for part := range slices.Chunk(ds, diagnosticsEach) {
		if err := e.send(&pb.ExecuteReply{Diagnostics: part}); err != nil {
			return err
		}
	}
	return nil
}

// refuse reports why nothing was done and sets the exit status.
func (e *execution) refuse(exit uint32, code, format string, args ...any) error {
	e.exit = max(e.exit, exit)
	return e.report(fault(code, format, args...))
}

// run parses and evaluates the text, commits, waits for the dataplanes and answers the queries. An error means that the
// client cannot be reached.
func (e *execution) run(ctx context.Context, text []byte) error {
	mode, parse := eval.ModeCommand, grammar.ParseCommand
	switch e.header.GetMode() {
	case pb.ExecuteMode_EXECUTE_MODE_COMMAND:
	case pb.ExecuteMode_EXECUTE_MODE_LOAD:
		mode, parse = eval.ModeLoad, grammar.ParseAt
	case pb.ExecuteMode_EXECUTE_MODE_MERGE:
		mode, parse = eval.ModeMerge, grammar.ParseAt
	default:
		return status.Error(codes.InvalidArgument, "the header names no mode")
	}
	statements, faults := parse(e.header.GetOrigin(), text)
	done, err := e.change(ctx, mode, statements, faults)
	if err != nil || done == nil {
		return err
	}
	return e.after(ctx, done)
}

// changed is what a committed change was.
type changed struct {
	outcome  *eval.Outcome
	want     *wanted
	concerns func(key string) bool
	// anything is false for mere queries.
	anything bool
}

// change evaluates and commits. It returns nil when there is nothing more to do: refused, or a dry run.
func (e *execution) change(ctx context.Context, mode eval.Mode, statements []*grammar.Statement, parsed []*pb.Diagnostic) (*changed, error) {
	e.writing.Lock()
	defer e.writing.Unlock()
	newest := e.store.Newest()
	if e.header.BaseRevision != nil && e.header.GetBaseRevision() != newest.Revision {
		return nil, e.refuse(exitRefused, codeConflict, "conflict: revision %d is not the newest, which is %d; nothing was changed",
			e.header.GetBaseRevision(), newest.Revision)
	}
	out := eval.Evaluate(newest.Tree, statements, e.options(mode, e.header.GetOrigin().GetFile()))
	if err := e.report(joined(parsed, out.Diagnostics)...); err != nil {
		return nil, err
	}
	if hasErrors(parsed) { // evaluated all the same, so that all faults are reported at once
		e.exit = exitFaulty
		return nil, nil
	}
	if out.Exit != exitDone {
		e.exit = uint32(out.Exit)
		return nil, nil
	}
	if e.header.GetDryRun() {
		return nil, e.dryRun(mode, newest.Tree, out)
	}
	c := store.Commit{Changes: out.Changes, Actor: e.header.GetActor(), Summary: out.Summary, Pending: e.pending(newest)}
	want, err := e.commit(ctx, c, out.PortPersist)
	if err != nil {
		return nil, e.storeFault(err)
	}
	if err := e.report(e.notes(out)...); err != nil {
		return nil, err
	}
	return &changed{
		outcome: out, want: want, concerns: concerned(mode, statements, out.Changes),
		anything: mode != eval.ModeCommand || out.Summary != "" || len(out.Changes) > 0 || out.PortPersistChanged,
	}, nil
}

// storeFault reports that a change could not be stored.
func (e *execution) storeFault(err error) error {
	if errors.Is(err, store.ErrConflict) {
		return e.refuse(exitRefused, codeConflict, "%v; nothing was changed", err)
	}
	e.log.Error("store failed", "error", err)
	return e.refuse(exitRefused, codeStore, "the change could not be stored: %v", err)
}

// concerned returns which objects a change is about: after a load all, else what it changed or named.
func concerned(mode eval.Mode, statements []*grammar.Statement, changes []config.Change) func(string) bool {
	if mode == eval.ModeLoad {
		return everything
	}
	keys := map[string]bool{}
	for _, c := range changes {
		keys[c.Key] = true
	}
	for _, st := range statements {
		if st.Object != nil {
			keys[st.Key] = true
		}
	}
	return func(key string) bool { return keys[key] }
}

// pending is the time limit of a change: its own, or that of an earlier change which still waits.
func (e *execution) pending(newest store.Snapshot) *store.Pending {
	p := newest.Pending
	if e.header.ConfirmWithinSeconds == nil {
		return p
	}
	back := newest.Revision
	if p != nil {
		back = p.BackTo
	}
	within := time.Duration(e.header.GetConfirmWithinSeconds()) * time.Second
	return &store.Pending{BackTo: back, Deadline: e.now().Add(within)}
}

// notes says what was kept without an effect, one line a kind, and what waits to be confirmed.
func (e *execution) notes(out *eval.Outcome) []*pb.Diagnostic {
	var notes []*pb.Diagnostic
	for _, k := range out.Kept {
		plural := "statements"
		if k.Count == 1 {
			plural = "statement"
		}
		n := note(pb.Severity_SEVERITY_NOTE, codeKept, "%s: %d %s kept, not in effect", k.Keyword, k.Count, plural)
		n.Position = k.Position
		notes = append(notes, n)
	}
	if p := e.store.Newest().Pending; p != nil && out.Summary != "" {
		notes = append(notes, note(pb.Severity_SEVERITY_NOTE, codePending, "goes back to revision %d at %s unless confirmed",
			p.BackTo, p.Deadline.Local().Format(time.DateTime)))
	}
	return notes
}

// after waits for the dataplanes and carries out what the change asks for beyond the configuration.
func (e *execution) after(ctx context.Context, c *changed) error {
	if c.anything {
		e.effects = e.Server.effects(ctx, c.want.stamp, c.concerns)
		e.settle()
	}
	for _, pool := range c.outcome.ClearSticky {
		mode := pb.PersistMode_PERSIST_MODE_STICKY
		if _, silent := e.clear(ctx, &pb.RecordFilter{Pool: &pool, Mode: &mode}); silent != nil {
			if err := e.unclear(silent); err != nil {
				return err
			}
		}
	}
	if c.outcome.Reset {
		if silent := e.resetStatistics(ctx, &pb.ResetStatisticsRequest{}); silent != nil {
			if err := e.unclear(silent); err != nil {
				return err
			}
		}
	}
	return e.operations(ctx, c.outcome.Operations)
}

// settle sets the exit status that the effects ask for.
func (e *execution) settle() {
	if !everywhere(e.effects) {
		e.exit = max(e.exit, exitNotInEffect)
	}
}

// unclear reports dataplanes on which a command did not take effect.
func (e *execution) unclear(silent []error) error {
	e.exit = max(e.exit, exitNotInEffect)
	return e.unanswered(pb.Severity_SEVERITY_ERROR, silent)
}

// unanswered reports dataplanes that did not answer.
func (e *execution) unanswered(severity pb.Severity, silent []error) error {
	for _, err := range silent {
		if err := e.report(note(severity, codeUnanswered, "%v", err)); err != nil {
			return err
		}
	}
	return nil
}

func hasErrors(ds []*pb.Diagnostic) bool {
	return slices.ContainsFunc(ds, func(d *pb.Diagnostic) bool { return d.GetSeverity() == pb.Severity_SEVERITY_ERROR })
}

// maxFaults is how many errors one reply names.
const maxFaults = 50

// joined puts what parsing and evaluating found into the order of the text. A place has one fault; the first counts.
func joined(parsed, evaluated []*pb.Diagnostic) []*pb.Diagnostic {
	if !hasErrors(parsed) {
		return append(parsed, evaluated...)
	}
	type place struct {
		file         string
		line, column uint32
	}
	at := func(d *pb.Diagnostic) place {
		p := d.GetPosition()
		return place{p.GetFile(), p.GetLine(), p.GetColumn()}
	}
	taken := map[place]bool{}
	for _, d := range parsed {
		taken[at(d)] = d.GetPosition() != nil
	}
	all := slices.Clone(parsed)
	for _, d := range evaluated {
		if d.GetSeverity() == pb.Severity_SEVERITY_ERROR && !taken[at(d)] {
			all = append(all, d)
		}
	}
	slices.SortStableFunc(all, func(a, b *pb.Diagnostic) int {
		p, q := at(a), at(b)
		return cmp.Or(cmp.Compare(p.line-1, q.line-1), cmp.Compare(p.column, q.column)) // no line comes last
	})
	errors := 0
	return slices.DeleteFunc(all, func(d *pb.Diagnostic) bool {
		if d.GetSeverity() == pb.Severity_SEVERITY_ERROR {
			errors++
		}
		return d.GetSeverity() == pb.Severity_SEVERITY_ERROR && errors > maxFaults
	})
}

// Load loads a file's contents as Execute does; the dataplanes are not waited for. The error holds what was faulty.
func (s *Server) Load(ctx context.Context, file string, text []byte) ([]*pb.Diagnostic, error) {
	var ds []*pb.Diagnostic
	e := &execution{
		Server: s, out: &pieces{send: func([]byte) error { return nil }},
		header: &pb.ExecuteHeader{
			Mode: pb.ExecuteMode_EXECUTE_MODE_LOAD, Origin: &pb.Position{File: file, Line: 1, Column: 1}, Actor: "mgmtd",
		},
		send: func(r *pb.ExecuteReply) error { ds = append(ds, r.GetDiagnostics()...); return nil },
	}
	statements, faults := grammar.ParseAt(e.header.GetOrigin(), text)
	if _, err := e.change(ctx, eval.ModeLoad, statements, faults); err != nil {
		return ds, err
	}
	if e.exit != exitDone {
		return ds, fmt.Errorf("%s has faults", file)
	}
	return ds, nil
}
