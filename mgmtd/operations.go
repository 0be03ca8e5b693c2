package mgmtd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"bigpipe/grammar"
	"bigpipe/grammar/eval"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store"
	"bigpipe/store/config"
)

// operations answers queries and carries out commands that act on running traffic, in their order; a refused one ends it.
func (e *execution) operations(ctx context.Context, list []eval.Operation) error {
	if e.json() {
		return e.documentsOf(ctx, list)
	}
	for _, op := range list {
		if err := e.operation(ctx, op); err != nil {
			return err
		}
		if e.refused {
			return nil
		}
	}
	return nil
}

// documentsOf writes one JSON document: that of the only operation, an array of those of several, and the revision where
// there is none.
func (e *execution) documentsOf(ctx context.Context, list []eval.Operation) error {
	if len(list) == 0 {
		return e.document(struct {
			Revision uint64 `json:"revision"`
		}{e.server.store.Newest().Revision})
	}
	before := map[bool]string{true: "[", false: ","}
	for i, op := range list {
		if len(list) > 1 {
			if _, err := io.WriteString(e.out, before[i == 0]); err != nil {
				return err
			}
		}
		if err := e.operation(ctx, op); err != nil {
			return err
		}
		if e.refused {
			break
		}
	}
	if e.refused {
		if !e.acted {
			return nil // the client shows no document then
		}
		if _, err := io.WriteString(e.out, "null"); err != nil {
			return err
		}
	}
	end := "\n"
	if len(list) > 1 {
		end = "]\n"
	}
	_, err := io.WriteString(e.out, end)
	return err
}

// document writes a document that stands alone.
func (e *execution) document(v any) error {
	if err := writeJSON(e.out, v); err != nil {
		return err
	}
	_, err := io.WriteString(e.out, "\n")
	return err
}

// operation carries out one of them. Its JSON has no line end.
func (e *execution) operation(ctx context.Context, op eval.Operation) error {
	e.running = op.Position
	defer func() { e.running = nil }()
	if r := e.server.unable(op, e.server.store.Newest().Tree); r != nil {
		return e.refuse(r.exit, r.code, "%s", r.message)
	}
	return e.carryOut(ctx, op)
}

func (e *execution) carryOut(ctx context.Context, op eval.Operation) error {
	switch op.Action {
	case grammar.ActionShow:
		return e.show(ctx, op)
	case grammar.ActionList:
		return e.list(op)
	case grammar.ActionLBModeShow:
		return e.lbModeShow(op)
	case grammar.ActionSysctlShow:
		return e.sysctlShow(op)
	case grammar.ActionGlobalShow:
		return e.globalShow(op)
	case grammar.ActionPersistShow:
		return e.persistShow(ctx, op)
	case grammar.ActionPersistDump:
		return e.persistDump(ctx, op)
	case grammar.ActionPersistClear:
		return e.clearRecords(ctx, op.Filter)
	case grammar.ActionStickyClear:
		_, pool := pb.SplitKey(op.Key)
		mode := pb.PersistMode_PERSIST_MODE_STICKY
		return e.clearRecords(ctx, &pb.RecordFilter{Pool: &pool, Mode: &mode})
	case grammar.ActionPersistExplain:
		return e.persistExplain(ctx, op)
	case grammar.ActionPersistForecast:
		return e.persistForecast(ctx, op)
	case grammar.ActionStatsReset:
		return e.statsReset(ctx, op)
	case grammar.ActionConnDump:
		return e.connDump(ctx, op)
	case grammar.ActionHistory:
		return e.history()
	case grammar.ActionRollback:
		return e.rollback(ctx, op.Seconds)
	case grammar.ActionConfirm:
		return e.confirm(ctx)
	case grammar.ActionMonitorDump:
		return e.monitorDump(ctx, op)
	case grammar.ActionNodeMonitorShow:
		return e.nodeMonitorShow(ctx, op)
	case grammar.ActionFailover:
		return e.failover(op)
	case grammar.ActionMakeCookie:
		return e.makeCookie(op)
	case grammar.ActionVersion:
		return e.printVersion()
	case grammar.ActionSummary:
		return e.summary(ctx)
	}
	return nil // impossible has refused it
}

// clearRecords deletes records on every dataplane and says how many.
func (e *execution) clearRecords(ctx context.Context, f *pb.RecordFilter) error {
	cleared, failed := e.server.clear(ctx, f)
	if err := e.commanded(failed); err != nil || e.refused {
		return err
	}
	if e.json() {
		return writeJSON(e.out, struct {
			Cleared uint64 `json:"cleared"`
		}{cleared})
	}
	_, err := fmt.Fprintf(e.out, "%d cleared\n", cleared)
	return err
}

// commanded sets the exit status of a command that some dataplanes did not carry out: refused when none did.
func (e *execution) commanded(failed failures) error {
	e.acted = e.acted || len(failed.list) < failed.asked
	if failed.none() || e.acted {
		return e.notEverywhere(failed)
	}
	e.refused, e.exit = true, pb.ExitRefused
	return e.reportFailures(pb.Severity_SEVERITY_ERROR, failed)
}

// queried reports dataplanes that an answer lacks. It is a refusal when it lacks all.
func (e *execution) queried(failed failures) error {
	switch {
	case !failed.total():
		return e.reportFailures(pb.Severity_SEVERITY_WARNING, failed)
	case e.acted:
		return e.notEverywhere(failed)
	}
	e.refused, e.exit = true, pb.ExitRefused
	return e.reportFailures(pb.Severity_SEVERITY_ERROR, failed)
}

func (e *execution) statsReset(ctx context.Context, op eval.Operation) error {
	r := &pb.ResetStatisticsRequest{}
	_, name := pb.SplitKey(op.Key)
	switch op.Kind {
	case grammar.KindPool:
		r.Pool = &name
	case grammar.KindVirtual:
		r.Virtual = &name
	case grammar.KindNode:
		r.Node = &name
	}
	if err := e.commanded(e.server.resetStatistics(ctx, r)); err != nil || e.refused {
		return err
	}
	if e.json() {
		return writeJSON(e.out, struct{}{})
	}
	return nil
}

// history prints the revisions, the newest first.
func (e *execution) history() error {
	list, err := e.server.store.History()
	if err != nil {
		return e.storeFault(err)
	}
	if e.json() {
		l := jsonList{w: e.out}
		if err := l.begin("revisions"); err != nil {
			return err
		}
		for _, r := range list {
			if err := l.add(message{Message: r.ProtoReflect()}); err != nil {
				return err
			}
		}
		return l.end()
	}
	t := table{w: e.out}
	if err := t.row("REVISION", "TIME", "BY", "CHANGED", "DELETED", "WHAT"); err != nil {
		return err
	}
	for _, r := range list {
		err := t.row(strconv.FormatUint(r.GetNumber(), 10), time.Unix(r.GetUnixSeconds(), 0).Format(time.DateTime), r.GetActor(),
			strconv.FormatUint(uint64(r.GetChanged()), 10), strconv.FormatUint(uint64(r.GetDeleted()), 10), r.GetSummary())
		if err != nil {
			return err
		}
	}
	return t.flush()
}

// rollback makes the configuration what it was at a revision; 0 is the one before the newest.
func (e *execution) rollback(ctx context.Context, number uint64) error {
	want, changes, acted, err := e.goBack(ctx, number)
	if errors.Is(err, store.ErrNoRevision) {
		return e.refuse(pb.ExitRefused, codeNotFound, "%v: not found in the history", err)
	}
	if err != nil {
		return e.storeFault(err)
	}
	e.acted = e.acted || acted
	e.effects = e.server.effects(ctx, want.stamp, concerned(eval.ModeCommand, nil, changes))
	e.settle()
	return e.revisionDocument()
}

// goBack commits the configuration of an earlier revision as a new one; 0 is the one before the newest.
func (e *execution) goBack(ctx context.Context, number uint64) (want *wanted, changes []config.Change, acted bool, err error) {
	e.server.writing.Lock()
	defer e.server.writing.Unlock()
	newest := e.server.store.Newest().Revision
	if e.header.BaseRevision != nil && !e.acted && e.header.GetBaseRevision() != newest {
		return nil, nil, false, store.ErrConflict
	}
	if number == 0 {
		if newest == 0 {
			return nil, nil, false, fmt.Errorf("nothing before revision 0: %w", store.ErrNoRevision)
		}
		number = newest - 1
	}
	return e.server.restore(ctx, number, e.header.GetActor(), fmt.Sprintf("rollback to %d", number))
}

// restore makes the configuration of a revision the newest one. Nothing waits to be confirmed afterwards. acted is false
// where it was that already. writing is held.
func (s *Server) restore(ctx context.Context, number uint64, actor, summary string) (want *wanted, changes []config.Change, acted bool, err error) {
	tree, err := s.store.At(number)
	if err != nil {
		return nil, nil, false, err
	}
	newest := s.base()
	c := store.Commit{Base: newest.Revision, Changes: config.DiffExact(newest.Tree, tree), Actor: actor, Summary: summary}
	if len(c.Changes) == 0 {
		acted, err := s.store.Confirm(ctx)
		w, _ := s.publisher.watch()
		return w, nil, acted, err
	}
	want, acted, err = s.commit(ctx, c, newest.ports)
	return want, c.Changes, acted, err
}

// confirm keeps a change that waits.
func (e *execution) confirm(ctx context.Context) error {
	e.server.writing.Lock()
	defer e.server.writing.Unlock()
	ok, err := e.server.store.Confirm(ctx)
	if err != nil {
		return e.storeFault(err)
	}
	if !ok {
		return e.refuse(pb.ExitRefused, codeNotFound, nothingWaits)
	}
	e.acted = true
	return e.revisionDocument()
}

// revisionDocument is the JSON of a change.
func (e *execution) revisionDocument() error {
	if !e.json() {
		return nil
	}
	return writeJSON(e.out, struct {
		Revision uint64 `json:"revision"`
	}{e.server.store.Newest().Revision})
}

func (e *execution) printVersion() error {
	if e.json() {
		return writeJSON(e.out, struct {
			Version string `json:"version"`
		}{e.server.version})
	}
	_, err := fmt.Fprintf(e.out, "mgmtd %s\n", e.server.version)
	return err
}

// expire takes back what is not confirmed in time, until ctx ends.
func (s *Server) expire(ctx context.Context) {
	for ctx.Err() == nil {
		newest, changed := s.store.Watch()
		var due <-chan time.Time
		var timer *time.Timer
		if p := newest.Pending; p != nil {
			timer = time.NewTimer(p.Deadline.Sub(s.now()))
			due = timer.C
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-due:
			if !s.takeBack(ctx) {
				pause(ctx, expireRetry)
			}
		}
		if timer != nil {
			timer.Stop()
		}
	}
}

// expireRetry is how long to wait after a change could not be taken back.
const expireRetry = 5 * time.Second

// pause waits for a time or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// takeBack goes back from a change whose time is over. False: it is to be tried again later.
func (s *Server) takeBack(ctx context.Context) bool {
	s.writing.Lock()
	defer s.writing.Unlock()
	p := s.store.Newest().Pending
	if p == nil || s.now().Before(p.Deadline) {
		return true
	}
	_, _, _, err := s.restore(ctx, p.BackTo, "mgmtd", fmt.Sprintf("rollback to %d: not confirmed in time", p.BackTo))
	switch {
	case err == nil:
		s.log.Info("took back a change that was not confirmed", "revision", p.Revision, "back_to", p.BackTo)
	case errors.Is(err, store.ErrNoRevision):
		_, err = s.store.Confirm(ctx)
		s.log.Error("cannot take back a change that was not confirmed: its predecessor left the history", "back_to", p.BackTo, "error", err)
	default:
		s.log.Error("cannot take back a change that was not confirmed", "back_to", p.BackTo, "error", err)
		return false
	}
	return true
}

// words joins what a statement said.
func words(list []string) string { return strings.Join(list, " ") }
