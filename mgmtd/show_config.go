package mgmtd

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"

	"bigpipe/grammar"
	"bigpipe/grammar/eval"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

type protoName = protoreflect.Name

// textOnly are the fields of Meta that say where something stood in a text; a printed configuration leaves them out.
var textOnly = map[protoName]bool{"position": true, "attributes": true}

// list prints configuration text, or the objects.
func (e *execution) list(op eval.Operation) error {
	return e.configuration(op, grammar.FormatOptions{})
}

// configuration prints what an operation names as configuration text, or as objects.
func (e *execution) configuration(op eval.Operation, o grammar.FormatOptions) error {
	kind := string(op.Kind)
	if op.Kind == grammar.KindKept {
		kind = words(op.Words)
	}
	objects := e.selected(kind, op.Key)
	if op.Kind == grammar.KindMonitor {
		objects = e.withTemplates(op, objects)
	}
	if o.OmitComments {
		objects = whole(objects)
	}
	if !e.json() {
		_, err := e.out.Write(e.formatWith(o, objects...))
		return err
	}
	l := jsonList{w: e.out}
	if err := l.begin("objects"); err != nil {
		return err
	}
	for _, o := range objects {
		if err := l.add(message{Message: o.ProtoReflect(), skip: textOnly}); err != nil {
			return err
		}
	}
	return l.end()
}

// withTemplates adds the monitors that exist without a definition: the one that is named, or with the word all those that are not
// defined.
func (e *execution) withTemplates(op eval.Operation, objects []*pb.Object) []*pb.Object {
	if len(objects) > 0 && words(op.Words) != "all" {
		return objects
	}
	for _, m := range monitorsOf(e.server.store.Newest().Tree, op, nil) {
		if config.IsMonitorTemplate(m.GetName()) && m.GetMeta() == nil {
			objects = append(objects, &pb.Object{Kind: &pb.Object_Monitor{Monitor: m}})
		}
	}
	return objects
}

// selected returns the stored objects of a key, a kind, or all. Statements that are kept whole go by their first word.
func (e *execution) selected(kind, key string) []*pb.Object {
	tree := e.server.store.Newest().Tree
	if o := tree.Get(key); o != nil {
		return []*pb.Object{o}
	}
	_, name := pb.SplitKey(key)
	var objects []*pb.Object
	tree.Range("", func(o *pb.Object) bool {
		own, _ := pb.SplitKey(o.Key())
		kept := o.GetKept()
		switch {
		case kind == "":
			objects = append(objects, o)
		case kept != nil && kept.GetKeyword() == kind && (key == "" || slices.Contains(strings.Fields(kept.GetText()), name)):
			objects = append(objects, o)
		case own == kind && key == "":
			objects = append(objects, o)
		}
		return true
	})
	return objects
}

// lbModeShow prints the load-balancing mode of a pool that is in effect.
func (e *execution) lbModeShow(op eval.Operation) error {
	w, _ := e.server.publisher.watch()
	p := w.view.Get(op.Key).GetPool()
	mode := pb.EnumWord(config.LbModeOf(w.view, p))
	if e.json() {
		type view struct {
			Name   string `json:"name"`
			LbMode string `json:"lb_mode"`
		}
		return writeJSON(e.out, map[string]any{"pools": []view{{p.GetName(), mode}}})
	}
	_, err := fmt.Fprintf(e.out, "lb_mode %s\n", mode)
	return err
}

// sysctlShow prints system control variables as NAME = VALUE.
func (e *execution) sysctlShow(op eval.Operation) error {
	values := sysctls(config.Globals(e.server.store.Newest().Tree))
	names := slices.Sorted(maps.Keys(values))
	if len(op.Words) > 0 {
		names = op.Words[:1]
	}
	if e.json() {
		shown := map[string]int{}
		for _, name := range names {
			shown["bigip."+name] = values[name]
		}
		return writeJSON(e.out, map[string]any{"sysctl": shown})
	}
	for _, name := range names {
		if _, err := fmt.Fprintf(e.out, "bigip.%s = %d\n", name, values[name]); err != nil {
			return err
		}
	}
	return nil
}

// sysctls returns the variables by their names without "bigip.", defaults included.
func sysctls(g *pb.Global) map[string]int {
	number := map[bool]int{true: 1}
	values := map[string]int{}
	for name, field := range grammar.Sysctls {
		text := globalText(grammar.Globals.Find(field), g)
		values[name] = number[(text == "enable" || text == "limit") != (name == grammar.MaintModeOff)]
	}
	for _, s := range g.GetSysctls() {
		if grammar.Sysctls[s.GetName()] == "" {
			values[s.GetName()] = number[s.GetValue()]
		}
	}
	return values
}

// globalShow prints global variables: the set ones, or one with its default.
func (e *execution) globalShow(op eval.Operation) error {
	g := config.Globals(e.server.store.Newest().Tree)
	name := words(op.Words)
	if e.json() {
		view := message{Message: g.ProtoReflect(), words: true, skip: map[protoName]bool{"meta": true}}
		if row := globalRow(name); row != nil {
			view.skip = map[protoName]bool{}
			for i := range view.Descriptor().Fields().Len() {
				if fd := view.Descriptor().Fields().Get(i); string(fd.Name()) != row.Field {
					view.skip[fd.Name()] = true
				}
			}
		}
		return writeJSON(e.out, map[string]any{"global": view})
	}
	if name == "" {
		_, err := e.out.Write(e.formatWith(grammar.FormatOptions{OmitComments: true}, &pb.Object{Kind: &pb.Object_Global{Global: g}}))
		return err
	}
	row := globalRow(name)
	text := globalText(row, g)
	if text == "" { // not set, and without a default
		return nil
	}
	_, err := fmt.Fprintf(e.out, "global %s %s\n", row.Name(), text)
	return err
}

// globalText is the value of a global variable as it is written, its default where it is not set.
func globalText(row *grammar.Attribute, g *pb.Global) string {
	if lines := row.Lines(g); len(lines) == 1 {
		return strings.TrimPrefix(lines[0], row.Name()+" ")
	}
	return row.Default
}

// globalRow finds the row of a variable by its words.
func globalRow(name string) *grammar.Attribute {
	if name == "" {
		return nil
	}
	for _, row := range grammar.Globals.Rows {
		spellings := [][]string{row.Words, row.Words3, {row.Field}}
		for _, words := range append(spellings, row.Aliases...) {
			if len(words) > 0 && strings.Join(words, " ") == name {
				return row
			}
		}
	}
	return nil
}

// summary prints the counters of the unit, a name and a value a line.
func (e *execution) summary(ctx context.Context) error {
	stats, gaps, err := e.statisticsFor(ctx, &pb.StatisticsRequest{})
	if err != nil {
		return err
	}
	u, newest := stats.GetUnit(), e.server.store.Newest()
	values := map[string]uint64{
		"uptime": u.GetUptimeSeconds(), "bytes_in": u.GetBytes().GetIn(), "bytes_out": u.GetBytes().GetOut(),
		"connections_current": u.GetConnections().GetCurrent(), "connections_max": u.GetConnections().GetMax(),
		"connections_total": u.GetConnections().GetTotal(), "requests": u.GetRequests(), "records": u.GetRecords(),
	}
	known := map[string]uint64{
		"virtual_servers": uint64(newest.Tree.Len("virtual")), "pools": uint64(newest.Tree.Len("pool")), "revision": newest.Revision,
	}
	maps.Copy(values, known)
	for name, n := range u.GetCounters() {
		values[name] = n
	}
	if e.json() {
		return writeJSON(e.out, map[string]any{"summary": values})
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		text := strconv.FormatUint(values[name], 10)
		if _, ours := known[name]; gaps.total() && !ours {
			text = notKnown
		}
		if _, err := fmt.Fprintf(e.out, "%s = %s\n", name, text); err != nil {
			return err
		}
	}
	return nil
}
