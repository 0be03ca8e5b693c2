package eval

import (
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"bigpipe/grammar"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

// endSticky checks persist_mode sticky disable: it ends sticky persistence and drops its records, and is refused for a pool
// of another mode (rule B-22).
func (e *evaluator) endSticky(s *grammar.Statement, p *pb.Pool) bool {
	switch mode := p.GetPersistMode(); mode {
	case pb.PersistMode_PERSIST_MODE_UNSPECIFIED, pb.PersistMode_PERSIST_MODE_NONE:
	case pb.PersistMode_PERSIST_MODE_STICKY:
		e.sticky[p.GetName()] = true
	default:
		e.fault(keyAt(s), CodeRefused, "pool %s: persist_mode is %s, not sticky", p.GetName(), pb.EnumWord(mode))
		return false
	}
	return true
}

// maxPools is how many pools a message names.
const maxPools = 10

// poolBehind returns the pool on which the persistence commands of a virtual server act (rule B-20). Without just one it
// notes why under a code, with what to use instead, and returns nil.
func (e *evaluator) poolBehind(s *grammar.Statement, code string, instead func(pool string) string) *pb.Object {
	vs := e.view.Get(s.Key).GetVirtual()
	if vs == nil {
		e.notFound(s, s.Key)
		return nil
	}
	direct, byRule := config.PoolsOf(e.view, vs)
	list := func(pools []string) string {
		var texts []string
		for i, p := range pools {
			if i == maxPools {
				texts = append(texts, fmt.Sprintf("%d more", len(pools)-maxPools))
				break
			}
			texts = append(texts, instead(p))
		}
		return strings.Join(texts, ", ")
	}
	refuse := func(format string, args ...any) {
		e.fault(keyAt(s), code, "%s %s", config.Title(s.Key), fmt.Sprintf(format, args...))
	}
	switch {
	case vs.GetRule() != "" && len(byRule) == 0:
		refuse("uses rule %s, which names no pool", vs.GetRule())
	case vs.GetRule() != "":
		refuse("uses rule %s: use %s", vs.GetRule(), list(byRule))
	case len(direct) == 0:
		refuse("references no pool")
	case len(direct) > 1:
		refuse("uses several pools: use %s", list(direct))
	default:
		o := e.view.Get("pool/" + direct[0])
		if o == nil {
			refuse("references pool %s: not found", direct[0])
		}
		return o
	}
	return nil
}

// virtualPersistence carries out a persistence command of a virtual server on the pool behind it (rules B-20, B-22).
func (e *evaluator) virtualPersistence(s *grammar.Statement) {
	old := e.poolBehind(s, CodeRefused, func(pool string) string { return "pool " + pool + " modify" })
	if old == nil {
		return
	}
	o, ok := e.copyOf(s, old)
	if !ok {
		return
	}
	p := o.GetPool()
	word := ""
	if len(s.Words) > 0 {
		word = s.Words[0]
	}
	var attributes []string
	switch s.Action {
	case grammar.ActionVirtualPersist:
		if !e.setSimple(s, p) {
			return
		}
		attributes = []string{"persist_mode", "simple_timeout"}
	case grammar.ActionVirtualPersistMask:
		p.SimpleMask = maskValue(word)
		attributes = []string{"simple_mask"}
	case grammar.ActionVirtualStickyMask:
		p.StickyMask = maskValue(word)
		attributes = []string{"sticky_mask"}
	case grammar.ActionVirtualMirrorPersist:
		p.MirrorPersist = proto.Bool(word == "enable")
		attributes = []string{"mirror persist"}
	case grammar.ActionVirtualSticky:
		attributes = []string{"persist_mode"}
		switch word {
		case "clear":
			e.operations = append(e.operations, Operation{Action: grammar.ActionStickyClear, Kind: grammar.KindPool, Key: old.Key(), Position: s.Position})
			return
		case "disable":
			if !e.endSticky(s, p) {
				return
			}
			p.PersistMode = pb.PersistMode_PERSIST_MODE_NONE.Enum()
		default:
			p.PersistMode = pb.PersistMode_PERSIST_MODE_STICKY.Enum()
		}
	}
	given, where := &pb.Meta{}, keyAt(s)
	for _, a := range attributes {
		given.Attributes = append(given.Attributes, &pb.AttributePosition{
			Attribute: a, Line: where.position.GetLine(), Column: where.position.GetColumn(), Length: where.length,
		})
	}
	e.rewrite(s, old, o, given)
	e.summarize(s)
}

// setSimple is vip A:P persist SECONDS: simple persistence with that timeout, none with 0; refused where the pool persists in
// another way.
func (e *evaluator) setSimple(s *grammar.Statement, p *pb.Pool) bool {
	switch mode := p.GetPersistMode(); mode {
	case pb.PersistMode_PERSIST_MODE_UNSPECIFIED, pb.PersistMode_PERSIST_MODE_NONE, pb.PersistMode_PERSIST_MODE_SIMPLE:
	default:
		e.fault(keyAt(s), CodeRefused, "pool %s: persist_mode is %s, not simple", p.GetName(), pb.EnumWord(mode))
		return false
	}
	switch {
	case s.Seconds > 1<<32-1:
		e.fault(keyAt(s), config.CodeValue, "%d is not a number of seconds from 0 to %d", s.Seconds, uint32(1<<32-1))
		return false
	case s.Seconds == 0:
		p.PersistMode = pb.PersistMode_PERSIST_MODE_NONE.Enum()
	default:
		p.PersistMode = pb.PersistMode_PERSIST_MODE_SIMPLE.Enum()
		p.SimpleTimeout = proto.Uint32(uint32(s.Seconds))
	}
	return true
}

func maskValue(word string) *string {
	if word == "none" || word == "" {
		return nil
	}
	return &word
}

// virtualQuery refuses a persistence query of a virtual server and names the query of the pool (rule B-20). It is wrong whatever
// the virtual server uses.
func (e *evaluator) virtualQuery(s *grammar.Statement) {
	verb := "show"
	if slices.Contains(s.Words, "dump") {
		verb = "dump"
	}
	query := func(pool string) string { return fmt.Sprintf("\"pool %s persist %s\"", pool, verb) }
	if o := e.poolBehind(s, CodeQuery, query); o != nil {
		e.fault(keyAt(s), CodeQuery, "%s: persistence belongs to its pool: use %s", config.Title(s.Key), query(o.GetPool().GetName()))
	}
}
