package mgmtd

import (
	"fmt"
	"sync"

	"bigpipe/grammar"
	"bigpipe/grammar/eval"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store"
	"bigpipe/store/config"
)

const nothingWaits = "nothing waits to be confirmed"

// refusal says why a command cannot be carried out.
type refusal struct {
	exit          uint32
	code, message string
	position      *pb.Position
}

// refusals are those of a text.
type refusals struct {
	list []*refusal // the first refusalsShown
	more int        // how many are not in the list
	exit uint32     // the highest of all
}

// refusalsShown is how many refused commands of one text are reported.
const refusalsShown = 50

func (l *refusals) add(r *refusal) {
	l.exit = max(l.exit, r.exit)
	if len(l.list) == refusalsShown {
		l.more++
		return
	}
	l.list = append(l.list, r)
}

// impossible returns why commands of a text cannot be carried out after its changes, so that nothing of it is done.
func (e *execution) impossible(b base, out *eval.Outcome) *refusals {
	var refused refusals
	note := func(op eval.Operation, r *refusal) {
		if r != nil {
			r.position = op.Position
			refused.add(r)
		}
	}
	plan := historyPlan{newest: b.Revision, start: b.Revision, waits: b.Pending != nil}
	plan.history = sync.OnceValues(func() (int, error) {
		list, err := e.server.store.History()
		return len(list), err
	})
	if len(out.Changes) > 0 {
		plan.commit()
		plan.waits = plan.waits || e.header.ConfirmWithinSeconds != nil
	}
	for _, op := range out.Operations {
		switch op.Action {
		case grammar.ActionRollback:
			note(op, plan.rollback(op.Seconds))
		case grammar.ActionConfirm:
			note(op, plan.confirm())
		default:
			note(op, e.server.unable(op, out.View))
		}
	}
	return &refused
}

// unable returns why a command can never be carried out here with a configuration; nil: it can.
func (s *Server) unable(op eval.Operation, v config.View) *refusal {
	switch op.Action {
	case grammar.ActionLoad, grammar.ActionMerge, grammar.ActionSave, grammar.ActionVerifyLoad, grammar.ActionConfigSync, grammar.ActionHelp:
		return &refusal{
			exit: pb.ExitFaulty, code: codeRefused,
			message: "this command is carried out by bigpipe, which reads and writes the files itself: it stands alone",
		}
	case grammar.ActionFailover:
		return unableToFailover(op)
	case grammar.ActionMakeCookie:
		if s.cookie == nil {
			return &refusal{exit: pb.ExitRefused, code: codeRefused, message: "no cookie can be made here"}
		}
	case grammar.ActionSysctlShow:
		if len(op.Words) == 0 {
			return nil
		}
		if _, ok := sysctls(config.Globals(v))[op.Words[0]]; !ok {
			return &refusal{exit: pb.ExitRefused, code: codeNotFound, message: fmt.Sprintf("variable bigip.%s not found", op.Words[0])}
		}
	case grammar.ActionGlobalShow:
		if name := words(op.Words); name != "" && globalRow(name) == nil {
			return &refusal{exit: pb.ExitFaulty, code: codeNotFound, message: fmt.Sprintf("global variable %q not found", name)}
		}
	case grammar.ActionStatsReset:
		switch op.Kind {
		case "", grammar.KindPool, grammar.KindVirtual, grammar.KindNode:
			return nil
		}
		title := config.Title(op.Key)
		if op.Key == "" {
			title = "a " + string(op.Kind)
		}
		return &refusal{exit: pb.ExitRefused, code: codeRefused, message: title + " has no counters of its own"}
	}
	return nil
}

// historyPlan follows what the commands of a text do to the history, without doing it.
type historyPlan struct {
	// newest is the revision that there will be at most; start was there before the text.
	newest, start uint64
	// commits counts the revisions of the text.
	commits int
	// waits is set while something is to be confirmed.
	waits bool
	// history reads how many revisions the history holds; only once, and where that is needed.
	history func() (int, error)
}

func (p *historyPlan) commit() {
	p.newest++
	p.commits++
}

// rollback goes back to a revision that is there before the text and still will be; 0 is the one before the newest.
func (p *historyPlan) rollback(number uint64) *refusal {
	switch {
	case number == 0 && p.newest == 0:
		return &refusal{exit: pb.ExitRefused, code: codeNotFound, message: "nothing before revision 0: not found in the history"}
	case number > 0:
		if r := p.known(number); r != nil {
			return r
		}
	}
	p.commit()
	p.waits = false
	return nil
}

func (p *historyPlan) known(number uint64) *refusal {
	held, err := p.history()
	if err != nil {
		return &refusal{exit: pb.ExitRefused, code: codeStore, message: fmt.Sprintf("the history cannot be read: %v", err)}
	}
	kept := min(held+p.commits, store.HistoryLimit) // so many can be gone back from
	if number > p.start || number+uint64(kept) < p.newest {
		err := fmt.Errorf("revision %d: %w", number, store.ErrNoRevision)
		return &refusal{exit: pb.ExitRefused, code: codeNotFound, message: err.Error() + ": not found in the history"}
	}
	return nil
}

func (p *historyPlan) confirm() *refusal {
	if !p.waits {
		return &refusal{exit: pb.ExitRefused, code: codeNotFound, message: nothingWaits}
	}
	p.waits = false
	return nil
}
