package mgmtd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"bigpipe/grammar"
	"bigpipe/grammar/eval"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

const (
	// maxText bounds the text of one Execute, in bytes. The parser reads no longer one either.
	maxText = 16 << 20
	// diagnosticsEach is how many diagnostics go into one piece of the reply.
	diagnosticsEach = 100
)

// Codes of the diagnostics of this package; those of packages grammar, eval and config come too.
const (
	codeConflict   = "conflict"
	codeNotFound   = "not_found"
	codeRefused    = "refused"
	codeStore      = "store"
	codeLimit      = "limit"
	codePending    = "pending"
	codeUnanswered = "unanswered"
)

// Execute implements the Admin service.
func (s *Server) Execute(stream grpc.BidiStreamingServer[pb.ExecuteRequest, pb.ExecuteReply]) error {
	header, text, size, err := receive(stream)
	if err != nil {
		return err
	}
	e := &execution{server: s, header: header, send: stream.Send}
	e.out = &pieces{send: func(b []byte) error { return stream.Send(&pb.ExecuteReply{Output: b}) }}
	if size > maxText {
		err = e.tooLong()
	} else {
		err = e.run(stream.Context(), text)
	}
	if err != nil {
		return err
	}
	if err := e.out.flush(); err != nil {
		return err
	}
	return stream.Send(&pb.ExecuteReply{Result: e.result()})
}

// receive puts the pieces of a request together. Of a text that is too long the rest is not kept; size counts all of it.
func receive(stream grpc.BidiStreamingServer[pb.ExecuteRequest, pb.ExecuteReply]) (header *pb.ExecuteHeader, text []byte, size uint64, err error) {
	for {
		piece, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, nil, 0, err
		}
		if header == nil {
			if header = piece.GetHeader(); header == nil {
				return nil, nil, 0, status.Error(codes.InvalidArgument, "the first piece has no header")
			}
		}
		if size += uint64(len(piece.GetText())); size > maxText {
			text = nil
			continue
		}
		text = append(text, piece.GetText()...)
	}
	if header == nil {
		return nil, nil, 0, status.Error(codes.InvalidArgument, "the request is empty")
	}
	if header.GetOrigin() == nil {
		header.Origin = &pb.Position{Line: 1, Column: 1}
	}
	return header, text, size, checkHeader(header)
}

// maxName bounds the name of a file and of who acts, in bytes. Each object keeps the one, each revision the other.
const maxName = 4096

// checkHeader refuses names that would take more room than what they name.
func checkHeader(h *pb.ExecuteHeader) error {
	for what, name := range map[string]string{"file of the origin": h.GetOrigin().GetFile(), "actor": h.GetActor()} {
		if len(name) > maxName {
			return status.Errorf(codes.InvalidArgument, "the %s has a name of %d bytes; the most is %d", what, len(name), maxName)
		}
	}
	return nil
}

// tooLong refuses a text as the parser does.
func (e *execution) tooLong() error {
	d := fault(codeLimit, "the text is longer than the %d bytes that are read", maxText)
	d.Position, d.Length = e.header.GetOrigin(), 1
	e.exit = pb.ExitFaulty
	return e.report(d)
}

// execution is one Execute while it runs.
type execution struct {
	server *Server
	header *pb.ExecuteHeader
	send   func(*pb.ExecuteReply) error
	out    *pieces

	mode       eval.Mode
	text       string
	statements []*grammar.Statement
	// parsed are the diagnostics of the parser.
	parsed []*pb.Diagnostic

	exit uint32
	// refused is set when the text, or the operation that is being carried out, was refused: nothing follows.
	refused bool
	// acted is set as soon as anything was changed: the exit status is then neither 1 nor 2, which mean that nothing was.
	acted bool
	// running is where the statement stands that is being carried out; nil before.
	running *pb.Position
	// effects are those of the last change, concerning what it touched.
	effects []*pb.DataplaneEffect
}

func (e *execution) json() bool { return e.header.GetOutput() == pb.OutputFormat_OUTPUT_FORMAT_JSON }

func (e *execution) naming() naming { return naming{numeric: e.header.GetNumeric()} }

func (e *execution) result() *pb.ExecuteResult {
	return &pb.ExecuteResult{ExitStatus: e.exit, Revision: e.server.store.Newest().Revision, Dataplanes: e.effects}
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

// refuse reports why the text, or the operation that is being carried out, is refused, and sets the exit status.
func (e *execution) refuse(exit uint32, code, format string, args ...any) error {
	e.refused = true
	if e.acted {
		exit = pb.ExitNotInEffect
	}
	e.exit = max(e.exit, exit)
	return e.report(e.placed(fault(code, format, args...)))
}

// placed gives an error without a place that of the statement that is being carried out, or that of the commands as a whole.
func (e *execution) placed(d *pb.Diagnostic) *pb.Diagnostic {
	switch {
	case d.GetPosition() != nil:
		return d
	case e.running != nil:
		return e.at(e.running, d)
	case e.mode == eval.ModeCommand && len(e.statements) > 0:
		return e.at(e.statements[0].Position, d)
	}
	return d
}

// at gives a diagnostic its place: the first word of a statement.
func (e *execution) at(p *pb.Position, d *pb.Diagnostic) *pb.Diagnostic {
	d.Position, d.Source = config.Position(p), lineAt(e.text, e.header.GetOrigin(), p.GetLine())
	word := ""
	if line := []rune(d.Source); p.GetColumn() > 0 && int(p.GetColumn()) <= len(line) {
		word, _, _ = strings.Cut(string(line[p.GetColumn()-1:]), " ")
	}
	d.Length = uint32(max(1, utf8.RuneCountInString(word)))
	return d
}

// lineAt returns a line of a text that begins at origin; columns are those of the origin.
func lineAt(text string, origin *pb.Position, number uint32) string {
	first := max(1, origin.GetLine())
	for n := first; n < number; n++ {
		_, after, found := strings.Cut(text, "\n")
		if !found {
			return ""
		}
		text = after
	}
	line, _, _ := strings.Cut(text, "\n")
	if number == first {
		line = grammar.Indented(origin.GetColumn(), line)
	}
	if len(line) > grammar.LongestLine {
		line = strings.ToValidUTF8(line[:grammar.LongestLine], "")
	}
	return strings.TrimSuffix(line, "\r")
}

// run parses and evaluates the text, commits, waits for the dataplanes and answers the queries. An error means that the
// client cannot be reached.
func (e *execution) run(ctx context.Context, text []byte) error {
	if err := e.parse(text); err != nil {
		return err
	}
	done, err := e.change(ctx)
	if err != nil || done == nil {
		return err
	}
	return e.after(ctx, done)
}

func (e *execution) parse(text []byte) error {
	read := grammar.ParseAt
	switch e.header.GetMode() {
	case pb.ExecuteMode_EXECUTE_MODE_COMMAND:
		e.mode, read = eval.ModeCommand, grammar.ParseCommand
	case pb.ExecuteMode_EXECUTE_MODE_LOAD:
		e.mode = eval.ModeLoad
	case pb.ExecuteMode_EXECUTE_MODE_MERGE:
		e.mode = eval.ModeMerge
	default:
		return status.Error(codes.InvalidArgument, "the header names no mode")
	}
	e.text = string(text)
	e.statements, e.parsed = read(e.header.GetOrigin(), text)
	return nil
}

// notes says what was kept without an effect, one line a kind, and what waits to be confirmed.
func (e *execution) notes(out *eval.Outcome) []*pb.Diagnostic {
	notes := out.Notes()
	if p := e.server.store.Newest().Pending; p != nil && out.Summary != "" {
		notes = append(notes, note(pb.Severity_SEVERITY_NOTE, codePending, "goes back to revision %d at %s unless confirmed",
			p.BackTo, p.Deadline.Local().Format(time.DateTime)))
	}
	return notes
}

// after waits for the dataplanes and carries out what the change asks for beyond the configuration.
func (e *execution) after(ctx context.Context, c *changed) error {
	if c.anything {
		e.effects = e.server.effects(ctx, c.want, c.concerns)
		e.settle()
	}
	if len(c.outcome.ClearSticky) > 0 {
		if err := e.notEverywhere(e.server.clearSticky(ctx, c.outcome.ClearSticky)); err != nil {
			return err
		}
	}
	if c.outcome.Reset {
		if err := e.notEverywhere(e.server.resetStatistics(ctx, &pb.ResetStatisticsRequest{})); err != nil {
			return err
		}
	}
	return e.operations(ctx, c.outcome.Operations)
}

// settle sets the exit status that the effects ask for.
func (e *execution) settle() {
	if !everywhere(e.effects) {
		e.exit = max(e.exit, pb.ExitNotInEffect)
	}
}

// notEverywhere reports dataplanes on which a change did not take effect.
func (e *execution) notEverywhere(failed failures) error {
	if failed.none() {
		return nil
	}
	e.exit = max(e.exit, pb.ExitNotInEffect)
	return e.reportFailures(pb.Severity_SEVERITY_ERROR, failed)
}

// reportFailures reports dataplanes that did not do what they were asked.
func (e *execution) reportFailures(severity pb.Severity, failed failures) error {
	list := failed.diagnostics(severity)
	if severity == pb.Severity_SEVERITY_ERROR {
		for i, d := range list {
			list[i] = e.placed(d)
		}
	}
	return e.report(list...)
}

func hasErrors(ds []*pb.Diagnostic) bool {
	return slices.ContainsFunc(ds, func(d *pb.Diagnostic) bool { return d.GetSeverity() == pb.Severity_SEVERITY_ERROR })
}

// File is a file to load.
type File struct {
	Name string
	Text []byte
	// ClassFiles are the contents of the files that its classes name, Unreadable says why there are none, by name.
	ClassFiles map[string][]byte
	Unreadable map[string]string
}

// Load loads a file as Execute does; the dataplanes are not waited for. The error holds what was faulty.
func (s *Server) Load(ctx context.Context, file File) ([]*pb.Diagnostic, error) {
	var ds []*pb.Diagnostic
	e := &execution{
		server: s, out: &pieces{send: func([]byte) error { return nil }},
		header: &pb.ExecuteHeader{
			Mode: pb.ExecuteMode_EXECUTE_MODE_LOAD, Origin: &pb.Position{File: file.Name, Line: 1, Column: 1}, Actor: "mgmtd",
			Files: file.ClassFiles, UnreadableFiles: file.Unreadable,
		},
		send: func(r *pb.ExecuteReply) error { ds = append(ds, r.GetDiagnostics()...); return nil },
	}
	if err := e.parse(file.Text); err != nil {
		return nil, err
	}
	if _, err := e.change(ctx); err != nil {
		return ds, err
	}
	if e.exit != pb.ExitDone {
		return ds, fmt.Errorf("%s has faults", file.Name)
	}
	return ds, nil
}
