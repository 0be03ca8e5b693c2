package eval

import (
	"maps"
	"slices"
	"strings"
	"unicode"

	"bigpipe/grammar"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

// Evaluate returns what statements mean for a configuration. Nothing is changed: the caller commits Outcome.Changes. All
// faults are reported, not the first alone. The statements are not modified.
func Evaluate(base config.View, statements []*grammar.Statement, options Options) *Outcome {
	e := &evaluator{
		base: config.TreeOf(base), options: options,
		touched: map[string]*touch{}, nodes: map[string]bool{}, sticky: map[string]bool{},
		hosts: map[string]string{}, unknown: map[string]bool{}, faulty: map[string]bool{}, classFiles: map[string]*pb.ClassContents{}, ports: maps.Clone(options.PortPersist),
	}
	if e.ports == nil {
		e.ports = map[uint32]uint32{}
	}
	e.view = config.NewOverlay(e.base)
	if options.Mode == ModeLoad {
		if len(statements) == 0 && e.base.Len("") > 0 { // as likely as not the file was cut off
			e.fault(at{&pb.Position{File: options.File, Line: 1, Column: 1}, 1}, CodeEmpty,
				"nothing is defined here: to clear the configuration there is reset")
		}
		e.reset()
	}
	e.statements = e.attachAll(e.resolveAll(statements))
	if options.Mode != ModeCommand {
		e.noteDuplicates(statements)
	}
	for i := 0; i < len(e.statements) && e.view.Len("") <= config.MaxObjects; { // the check says when it is too many
		n := e.adding(e.statements[i:])
		if n == 0 {
			n = 1
			e.evaluate(e.statements[i])
		} else {
			e.addMembers(e.statements[i : i+n])
		}
		i += n
	}
	return e.finish()
}

// evaluator gathers what statements do.
type evaluator struct {
	base       *config.Tree
	view       *config.Overlay
	options    Options
	statements []*grammar.Statement

	diagnostics []*pb.Diagnostic
	operations  []Operation
	// asked holds the statements of the operations that name something.
	asked []*grammar.Statement
	// wasReset is set when the overlay began with nothing instead of the base.
	wasReset bool
	// touched holds every key that was put or deleted.
	touched map[string]*touch
	// nodes holds the keys of nodes and virtual addresses that may have lost what made them exist.
	nodes map[string]bool
	// sticky holds the pools whose sticky records are to be dropped.
	sticky map[string]bool
	// hosts holds the addresses of host names; "" for one that is not known.
	hosts map[string]string
	// missing counts the host names without an address.
	missing int
	// unknown holds the places of host names that are not known.
	unknown map[string]bool
	ports   map[uint32]uint32
	// classFiles holds the files of classes that were read.
	classFiles map[string]*pb.ClassContents
	kept       []Kept
	ignored    []Ignored
	// counted is where the statement begins that was counted last.
	counted *pb.Position
	// looked is where the statement begins whose attributes were looked at last.
	looked  *pb.Position
	summary []string
	// pointed counts the undefined references whose names were looked for.
	pointed int
	// strays counts the nodes and addresses that exist nowhere and of which nothing is said.
	strays int
	// copied is how much copyOf has copied.
	copied int
	// summarized is where the statement begins that was last added to the summary.
	summarized *pb.Position
	// faulty holds the keys of objects whose text has faults; these are reported by the parser.
	faulty map[string]bool
}

// touch is what the statements did to one key.
type touch struct {
	// last is the statement that did it, first the first that gave or changed the object; nil when it was deleted.
	last, first *grammar.Statement
	// replaced is set when the object was given as a whole: nothing of the old text is left.
	replaced bool
	// attributes holds the words of the attributes that were given.
	attributes map[string]bool
}

func (e *evaluator) reset() {
	e.view = config.NewOverlay(nil)
	e.wasReset = true
	e.touched, e.nodes, e.sticky = map[string]*touch{}, map[string]bool{}, map[string]bool{}
	clear(e.ports)
}

// put stores an object that a statement has made or changed.
func (e *evaluator) put(s *grammar.Statement, o *pb.Object) {
	key := o.Key()
	e.forgetting(e.view.Get(key))
	e.view.Put(o)
	e.touch(s, key)
}

// delete removes an object.
func (e *evaluator) delete(s *grammar.Statement, key string) {
	e.forgetting(e.view.Get(key))
	e.view.Delete(key)
	t := e.touch(s, key)
	t.first, t.replaced = nil, true
}

func (e *evaluator) touch(s *grammar.Statement, key string) *touch {
	t := e.touched[key]
	if t == nil {
		t = &touch{}
		e.touched[key] = t
	}
	t.last = s
	return t
}

// forgetting notes the nodes and addresses that exist because of an object that is about to change.
func (e *evaluator) forgetting(o *pb.Object) {
	switch k := o.GetKind().(type) {
	case *pb.Object_Pool:
		for _, m := range k.Pool.GetMembers() {
			address, _, _ := config.SplitAddress(m.GetAddress())
			for _, name := range []string{m.GetAddress(), address} {
				e.nodes["node/"+name], e.nodes["monitor_use/"+name] = true, true
			}
		}
	case *pb.Object_Virtual:
		address, _, _ := config.SplitAddress(k.Virtual.GetAddress())
		e.nodes["virtual_address/"+address] = true
	}
}

// exists reports whether something refers to a node or a virtual address, so that it exists. Monitors of a node exist with it.
func (e *evaluator) exists(key string) bool {
	if kind, name := pb.SplitKey(key); kind == "monitor_use" {
		if strings.HasPrefix(name, "*:") {
			return true
		}
		key = "node/" + name
	}
	found := false
	e.view.Referrers(key, func(from string) bool {
		kind, _ := pb.SplitKey(from)
		found = kind == "pool" || kind == "virtual"
		return !found
	})
	return found
}

// evaluate carries out one statement.
func (e *evaluator) evaluate(s *grammar.Statement) {
	if s.Faulty {
		e.standIn(s)
		return
	}
	if e.options.Mode != ModeCommand && !inFile(s.Action) {
		e.fault(at{s.Position, 1}, CodeNotInFile, "%q is a command: it cannot stand in a file", brief(s.Text))
		return
	}
	e.countKept(s)
	e.countIgnored(s)
	switch s.Action {
	case grammar.ActionDefine:
		e.define(s)
	case grammar.ActionModify, grammar.ActionSet:
		e.change(s)
	case grammar.ActionRemove:
		if s.Kind != grammar.KindPool {
			e.removeElements(s)
			return
		}
		e.removeMembers(s)
	case grammar.ActionToggle:
		e.toggle(s)
	case grammar.ActionDelete:
		e.remove(s)
	case grammar.ActionKeep:
		e.keep(s)
	case grammar.ActionPortPersist:
		e.portPersist(s)
	case grammar.ActionReset:
		e.reset()
		e.summary = append(e.summary, "reset")
	case grammar.ActionVirtualPersist, grammar.ActionVirtualPersistMask, grammar.ActionVirtualSticky,
		grammar.ActionVirtualStickyMask, grammar.ActionVirtualMirrorPersist:
		e.virtualPersistence(s)
	case grammar.ActionVirtualQuery:
		e.virtualQuery(s)
	case grammar.ActionPortPersistShow:
		e.fault(at{s.Position, 1}, CodeQuery, "persistence of a port is not shown: the timeout of a port belongs to the pools that its virtual servers use")
	default:
		e.operation(s)
	}
}

// standIn lets others refer to what a faulty statement names; its faults are the parser's.
func (e *evaluator) standIn(s *grammar.Statement) {
	if s.Key == "" || s.Object == nil {
		e.faulty[""] = true
		return
	}
	e.faulty[s.Key] = true
	if e.view.Get(s.Key) == nil {
		e.replace(s, config.Clone(s.Object))
	}
}

// noteDuplicates notes definitions that are seen to be of one object only when their hosts have addresses; the others are the
// parser's.
func (e *evaluator) noteDuplicates(raw []*grammar.Statement) {
	known := map[string]bool{}
	for _, d := range grammar.Duplicates(raw) {
		known[d.GetPosition().String()] = true
	}
	for _, d := range grammar.Duplicates(e.statements) {
		if !known[d.GetPosition().String()] {
			e.diagnostics = append(e.diagnostics, d)
		}
	}
}

// adding counts the statements at the beginning of a list that add members to one pool.
func (e *evaluator) adding(list []*grammar.Statement) int {
	n := 0
	for n < len(list) && list[n].Action == grammar.ActionAdd && !list[n].Faulty && list[n].Key == list[0].Key {
		n++
	}
	return n
}

// inFile reports whether an action may stand in a file.
func inFile(a grammar.Action) bool {
	switch a {
	case grammar.ActionDefine, grammar.ActionModify, grammar.ActionSet, grammar.ActionAdd, grammar.ActionRemove,
		grammar.ActionDelete, grammar.ActionKeep, grammar.ActionPortPersist,
		grammar.ActionVirtualPersist, grammar.ActionVirtualPersistMask, grammar.ActionVirtualSticky,
		grammar.ActionVirtualStickyMask, grammar.ActionVirtualMirrorPersist:
		return true
	}
	return false
}

// portPersist sets or ends the volatile timeout of a port (rule B-19).
func (e *evaluator) portPersist(s *grammar.Statement) {
	switch {
	case s.Seconds > 1<<32-1:
		e.fault(keyAt(s), config.CodeValue, "persist %d: %d is not a number of seconds from 0 to %d", s.Port, s.Seconds, uint32(1<<32-1))
	case s.Seconds == 0:
		delete(e.ports, s.Port)
	default:
		e.ports[s.Port] = uint32(s.Seconds)
	}
}

// samePlace tells whether both are the same place, and known.
func samePlace(p, q *pb.Position) bool {
	return p != nil && q != nil && p.GetLine() == q.GetLine() && p.GetColumn() == q.GetColumn() && p.GetFile() == q.GetFile()
}

// countKept counts a statement of which nothing is in effect.
func (e *evaluator) countKept(s *grammar.Statement) {
	if !inFile(s.Action) || samePlace(e.counted, s.Position) || s.InEffect() {
		return
	}
	e.counted = s.Position
	keyword := s.Text
	if i := strings.IndexFunc(keyword, func(r rune) bool { return unicode.IsSpace(r) || r == '{' }); i > 0 {
		keyword = keyword[:i]
	}
	if i := slices.IndexFunc(e.kept, func(k Kept) bool { return k.Keyword == keyword }); i >= 0 {
		e.kept[i].Count++
		return
	}
	e.kept = append(e.kept, Kept{Keyword: keyword, Count: 1, Position: config.Position(s.Position)})
}

// keep stores a statement that is kept as it was written. One with braces stands for the object that it names: what was defined of
// that before gives way, but a monitor is not created again by a command.
func (e *evaluator) keep(s *grammar.Statement) {
	o := config.Clone(s.Object)
	keyword := o.GetKept().GetKeyword()
	if name := keptName(s.Text); name != "" && e.options.Mode != ModeLoad {
		if keyword == "monitor" && e.refuseExisting(s, name) {
			return
		}
		e.dropKept(s, keyword, name)
		if key := keyword + "/" + name; e.view.Get(key) != nil {
			e.delete(s, key)
		}
	}
	e.replace(s, o)
	e.summarize(s)
}

// keptName is the name of a kept statement KEYWORD NAME { ... }; "" for statements of another form.
func keptName(text string) string {
	head, _, braces := strings.Cut(text, "{")
	words := strings.Fields(head)
	if !braces || len(words) != 2 {
		return ""
	}
	return words[1]
}

// dropKept removes the statements with braces that are kept as text and define an object.
func (e *evaluator) dropKept(s *grammar.Statement, keyword, name string) {
	for _, o := range config.KeptAs(e.view, keyword, name) {
		if keptName(o.GetKept().GetText()) == name {
			e.delete(s, o.Key())
		}
	}
}

// refuseExisting notes that a command creates a monitor that exists.
func (e *evaluator) refuseExisting(s *grammar.Statement, name string) bool {
	if e.options.Mode != ModeCommand || e.view.Get("monitor/"+name) == nil && len(config.KeptAs(e.view, "monitor", name)) == 0 {
		return false
	}
	e.fault(keyAt(s), CodeExisting, "existing monitor %s: delete it first, or change it with modify", name)
	return true
}
