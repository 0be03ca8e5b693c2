package mgmtd

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"bigpipe/grammar"
	"bigpipe/grammar/eval"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

// show prints configuration and statistics of an object or of all of a kind.
func (e *execution) show(ctx context.Context, op eval.Operation) error {
	switch op.Kind {
	case grammar.KindPool:
		return e.poolShow(ctx, op)
	case grammar.KindVirtual, grammar.KindVirtualAddress:
		return e.virtualShow(ctx, op)
	case grammar.KindNode:
		return e.nodeShow(ctx, op)
	case grammar.KindService:
		return e.serviceShow(ctx, op)
	case grammar.KindMonitorUse:
		return e.nodeMonitorShow(ctx, op)
	}
	return e.configuration(op, grammar.FormatOptions{OmitComments: true})
}

// statisticsFor asks for the counters of one object or of all of a kind, and warns of dataplanes that do not answer. Even when
// none does it is no refusal: what is configured is shown all the same. gaps are the dataplanes whose counters are not known.
func (e *execution) statisticsFor(ctx context.Context, r *pb.StatisticsRequest) (stats *pb.StatisticsReply, gaps gaps, err error) {
	stats, gaps.failures = e.server.statistics(ctx, r)
	gaps.shown = !e.json()
	return stats, gaps, e.reportFailures(pb.Severity_SEVERITY_WARNING, gaps.failures)
}

// gaps are what counters lack.
type gaps struct {
	failures
	// shown is set for a text, which has a "-" for each counter that is not known. JSON has the same fields always: there a
	// dataplane that gave no answer has no entry, and where none did, there is one entry with zeros.
	shown bool
}

// unknown returns the dataplanes to show without counters.
func (g gaps) unknown() []*failure {
	if !g.shown {
		return nil
	}
	return g.list
}

// withEmpty returns what dataplanes count of one thing: an empty entry where those that answered count nothing.
func withEmpty[T any](g gaps, list []*T) []*T {
	if list == nil && (!g.total() || !g.shown) {
		return []*T{nil}
	}
	return list
}

// viewWriter writes views: as JSON into one list, as text one after the other.
type viewWriter struct {
	e    *execution
	list jsonList
}

func (e *execution) viewWriter(name string) (*viewWriter, error) {
	s := &viewWriter{e: e, list: jsonList{w: e.out}}
	if !e.json() {
		return s, nil
	}
	return s, s.list.begin(name)
}

// add writes a view, whose text is made only when it is needed.
func (s *viewWriter) add(view any, text func() string) error {
	if s.e.json() {
		return s.list.add(view)
	}
	_, err := s.e.out.Write([]byte(text()))
	return err
}

func (s *viewWriter) end() error {
	if !s.e.json() {
		return nil
	}
	return s.list.end()
}

// poolShow prints pools with their members' counters on each dataplane.
func (e *execution) poolShow(ctx context.Context, op eval.Operation) error {
	r := &pb.StatisticsRequest{}
	if _, name := pb.SplitKey(op.Key); name != "" {
		r.Pool = &name
	}
	stats, gaps, err := e.statisticsFor(ctx, r)
	if err != nil {
		return err
	}
	byName := make(map[string]*pb.PoolStatistics, len(stats.GetPools()))
	for _, p := range stats.GetPools() {
		byName[p.GetName()] = p
	}
	s, err := e.viewWriter("pools")
	if err != nil {
		return err
	}
	w, _ := e.server.publisher.watch()
	poolsOf(w.view, op.Key, func(p *pb.Pool) bool {
		view := poolViewOf(w.view, p, byName[p.GetName()], gaps)
		err = s.add(view, func() string { return e.poolText(view) })
		return err == nil
	})
	if err != nil {
		return err
	}
	return s.end()
}

// poolViewOf joins the configuration of a pool with what the dataplanes count. A member that none counts has one entry.
func poolViewOf(v config.View, p *pb.Pool, stats *pb.PoolStatistics, gaps gaps) poolView {
	view := poolView{
		Name: p.GetName(), LbMode: pb.EnumWord(config.LbModeOf(v, p)), Members: []memberView{},
		Records: stats.GetRecords(), Persistence: persistCountsOf(stats.GetPersistence()),
		LargestKey: largestKeyOf(stats), mode: pb.EnumWord(config.PersistModeOf(p)),
	}
	counted := make(map[string][]*pb.MemberStatistics, len(p.GetMembers()))
	for _, m := range stats.GetMembers() {
		counted[m.GetAddress()] = append(counted[m.GetAddress()], m)
	}
	for _, m := range p.GetMembers() {
		for _, c := range withEmpty(gaps, counted[m.GetAddress()]) {
			view.Members = append(view.Members, memberViewOf(v, m, c))
		}
		for _, silent := range gaps.unknown() {
			one := memberViewOf(v, m, nil)
			one.Dataplane, one.Connections.unknown, one.Bytes.unknown = silent.dataplane, true, true
			one.State = unknownState(one.State, one.Enabled)
			view.Members = append(view.Members, one)
		}
	}
	return view
}

// unknownState is the state of what a silent dataplane has: only what the operator has set is known.
func unknownState(set string, enabled bool) string {
	if enabled {
		return notKnown
	}
	return set
}

func memberViewOf(v config.View, m *pb.Member, c *pb.MemberStatistics) memberView {
	view := memberView{
		Address: m.GetAddress(), State: stateWord(v, m.GetAddress(), c.GetState()), Enabled: config.MemberState(v, m.GetAddress()).Enabled,
		Connections: countersOf(c.GetConnections()), Bytes: trafficOf(c.GetBytes()), Requests: c.GetRequests(),
		Ratio: config.MemberRatio(m), Priority: m.GetPriority(), Dataplane: c.GetDataplane(),
	}
	if view.Connections.Limit == 0 {
		view.Connections.Limit = uint64(m.GetLimit())
	}
	return view
}

// block is the text of one thing in the shape of old: a head, counters, and parts below it.
func block(lines ...string) string { return strings.Join(lines, "\n") + "\n" }

// connectionLine and bitLine are the two lines of counters; packets are not counted, bits are eight times the bytes.
func connectionLine(c counters) string {
	if c.unknown {
		return fmt.Sprintf("(cur, max, limit, tot) = (-, -, %d, -)", c.Limit)
	}
	return fmt.Sprintf("(cur, max, limit, tot) = (%d, %d, %d, %d)", c.Current, c.Max, c.Limit, c.Total)
}

func bitLine(t traffic) string {
	if t.unknown {
		return "(pckts,bits) in = (-, -), out = (-, -)"
	}
	return fmt.Sprintf("(pckts,bits) in = (-, %d), out = (-, %d)", 8*t.In, 8*t.Out)
}

// part is a thing below another: +- and its counters.
func part(head string, c counters, t traffic) string {
	return block("+-    "+head, "      "+connectionLine(c), "      "+bitLine(t))
}

// on names the dataplane where there are several.
func (e *execution) on(dataplane string) string {
	if len(e.server.pushers) < 2 || dataplane == "" {
		return ""
	}
	return "  on " + dataplane
}

func (e *execution) poolText(p poolView) string {
	sum, bytes := counters{}, traffic{}
	known := func(m memberView) bool { return !m.Connections.unknown }
	if len(p.Members) > 0 && !slices.ContainsFunc(p.Members, known) {
		sum.unknown, bytes.unknown = true, true
	}
	for _, m := range p.Members {
		sum.add(m.Connections)
		bytes.add(m.Bytes)
	}
	text := block("POOL "+p.Name+"    LB_MODE "+p.LbMode, "|     "+connectionLine(sum), "|     "+bitLine(bytes))
	if p.mode != pb.EnumWord(pb.PersistMode_PERSIST_MODE_NONE) {
		text += block("|     " + persistLine(p))
	}
	for _, m := range p.Members {
		head := fmt.Sprintf("MEMBER %s  %s", e.naming().address(m.Address), label(m.State))
		if m.Ratio != 1 {
			head += fmt.Sprintf("  ratio %d", m.Ratio)
		}
		if m.Priority != 0 {
			head += fmt.Sprintf("  priority %d", m.Priority)
		}
		text += part(head+e.on(m.Dataplane), m.Connections, m.Bytes)
	}
	return text
}

// persistLine is what persistence found and did; what never came is left out.
func persistLine(p poolView) string {
	if p.Persistence == nil {
		return fmt.Sprintf("persist_mode %s, records %s", p.mode, notKnown)
	}
	text := fmt.Sprintf("persist_mode %s, records %d", p.mode, p.Records)
	for name, n := range p.Persistence.each() {
		if n > 0 {
			text += fmt.Sprintf(", %s %d", name, n)
		}
	}
	if k := p.LargestKey; k != nil {
		text += fmt.Sprintf(", largest key %s %.0f %%", cmp.Or(k.Key, "(gone)"), 100*k.Share)
	}
	return text
}

// label writes a state as the old displays did.
func label(state string) string { return strings.ToUpper(strings.ReplaceAll(state, "_", " ")) }

// virtualShow prints virtual servers with their counters on each dataplane.
func (e *execution) virtualShow(ctx context.Context, op eval.Operation) error {
	r := &pb.StatisticsRequest{}
	kind, name := pb.SplitKey(op.Key)
	if kind == "virtual" && name != "" {
		r.Virtual = &name
	}
	stats, gaps, err := e.statisticsFor(ctx, r)
	if err != nil {
		return err
	}
	counted := make(map[string][]*pb.VirtualStatistics, len(stats.GetVirtuals()))
	for _, v := range stats.GetVirtuals() {
		counted[v.GetAddress()] = append(counted[v.GetAddress()], v)
	}
	s, err := e.viewWriter("virtual_servers")
	if err != nil {
		return err
	}
	w, _ := e.server.publisher.watch()
	virtualsOf(w.view, op.Key, func(vs *pb.VirtualServer) bool {
		views := virtualViews(w.view, vs, counted[vs.GetAddress()], gaps)
		for i, view := range views {
			err = s.add(view, func() string { return e.virtualText(w.view, vs, views, i) })
			if err != nil {
				return false
			}
		}
		return true
	})
	if err != nil {
		return err
	}
	return s.end()
}

// virtualsOf calls fn with the virtual server of a key, those of a virtual address, or all.
func virtualsOf(v config.View, key string, fn func(*pb.VirtualServer) bool) {
	kind, name := pb.SplitKey(key)
	if kind == "virtual" && name != "" {
		if vs := config.FindVirtual(v, name); vs != nil {
			fn(vs)
		}
		return
	}
	v.Range("virtual", func(o *pb.Object) bool {
		address, _, _ := config.SplitAddress(o.GetVirtual().GetAddress())
		if kind == "virtual_address" && name != "" && address != name {
			return true
		}
		return fn(o.GetVirtual())
	})
}

// virtualViews returns a view for each dataplane and protocol that counts the virtual server, one without a dataplane, not in
// effect, when none does, and those of silent dataplanes.
func virtualViews(v config.View, vs *pb.VirtualServer, counted []*pb.VirtualStatistics, gaps gaps) []virtualView {
	base := virtualView{Address: vs.GetAddress(), Rule: vs.GetRule(), Protocol: "tcp", Reason: "no dataplane has reported it"}
	if http, why := config.IsHTTP(v, vs); http {
		base.Protocol, base.Why = "http", why
	}
	base.Enabled, _ = config.VirtualEnabled(v, vs)
	base.Connections.Limit = uint64(vs.GetLimit())
	if pools := vs.GetPools(); len(pools) == 1 {
		base.Pool = pools[0].GetPool()
	} else {
		for _, p := range pools {
			base.Pools = append(base.Pools, weightedView{p.GetPool(), p.GetWeight()})
		}
	}
	if gaps.total() {
		base.Reason = gaps.list[0].String()
	}
	var views []virtualView
	for _, c := range withEmpty(gaps, counted) {
		views = append(views, countedView(base, c))
	}
	for _, silent := range gaps.unknown() {
		view := base
		view.Dataplane, view.Reason, view.Connections.unknown, view.Bytes.unknown = silent.dataplane, silent.reason, true, true
		views = append(views, view)
	}
	return views
}

// countedView adds what a dataplane counts to what is configured of a virtual server; nothing when c is nil.
func countedView(view virtualView, c *pb.VirtualStatistics) virtualView {
	if c == nil {
		return view
	}
	limit := view.Connections.Limit
	if c.GetProtocol() != "" {
		view.Protocol = c.GetProtocol()
	}
	view.InEffect, view.Reason, view.Dataplane = c.GetInEffect(), c.GetReason(), c.GetDataplane()
	view.Connections, view.Bytes, view.Requests = countersOf(c.GetConnections()), trafficOf(c.GetBytes()), c.GetRequests()
	if view.Connections.Limit == 0 {
		view.Connections.Limit = limit
	}
	return view
}

// virtualText writes the head before the first view of a virtual server.
func (e *execution) virtualText(v config.View, vs *pb.VirtualServer, views []virtualView, i int) string {
	view, text := views[i], ""
	if i == 0 {
		state := "ENABLED"
		if enabled, why := config.VirtualEnabled(v, vs); !enabled {
			state = "DISABLED"
			if why != "disabled" {
				state += " (" + why + ")"
			}
		}
		text = block("VIRTUAL "+e.naming().address(view.Address)+"    "+state, "|     "+uses(vs))
	}
	head := label(view.Protocol)
	if _, udp := config.Listening(v, vs); udp && view.Protocol != "udp" {
		head += ", UDP"
	}
	if view.Why != "" && view.Protocol == "http" {
		head += " (" + view.Why + ")"
	}
	switch {
	case view.Connections.unknown:
		head += "  " + notKnown + " (" + view.Reason + ")"
	case view.InEffect:
		head += "  IN EFFECT"
	case view.Reason != "":
		head += "  NOT IN EFFECT: " + view.Reason
	default:
		head += "  NOT IN EFFECT"
	}
	return text + part(head+e.on(view.Dataplane), view.Connections, view.Bytes)
}

// uses says where a virtual server's traffic goes, in the words of the configuration.
func uses(vs *pb.VirtualServer) string {
	switch {
	case vs.GetForward():
		return "forward"
	case vs.GetRule() != "":
		return "use rule " + vs.GetRule()
	}
	text := "use"
	for _, p := range vs.GetPools() {
		text += " pool " + p.GetPool()
		if p.Weight != nil {
			text += fmt.Sprintf(" weight %d", p.GetWeight())
		}
	}
	return text
}
