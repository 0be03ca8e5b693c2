package mgmtd

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"bigpipe/grammar"
	"bigpipe/grammar/eval"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

// instanceView is a monitor at a node.
type instanceView struct {
	// Node is what is checked; not said where the instance stands below it.
	Node        string `json:"node,omitempty"`
	Monitor     string `json:"monitor,omitempty"`
	Destination string `json:"destination"`
	State       string `json:"state"`
	Enabled     bool   `json:"enabled"`
	Dataplane   string `json:"dataplane,omitempty"`
}

// monitoredView is a node with its monitors.
type monitoredView struct {
	Address   string         `json:"address"`
	State     string         `json:"state"`
	Monitors  []instanceView `json:"monitors"`
	Dataplane string         `json:"dataplane,omitempty"`
	// addressUp is set when the node is a service and its address is up.
	addressUp bool
}

// monitorView is a monitor with the nodes that it checks.
type monitorView struct {
	Name      string         `json:"name"`
	Use       string         `json:"use,omitempty"`
	Interval  uint32         `json:"interval"`
	Timeout   uint32         `json:"timeout"`
	Enabled   bool           `json:"enabled"`
	Instances []instanceView `json:"instances"`
}

// instance is a monitor at a node on a dataplane.
type instance struct{ node, monitor, dataplane string }

// monitoring is what the dataplanes say of monitors.
type monitoring struct {
	view    config.View
	sources []source
	counts  nodeCounts
	states  map[instance]pb.MemberState
}

// monitoring asks for the states of monitors at a node, ADDRESS or ADDRESS:PORT; "" asks for all.
func (e *execution) monitoring(ctx context.Context, node string) (*monitoring, error) {
	r := &pb.StatisticsRequest{}
	if node != "" {
		r.Node = &node
	}
	stats, gaps, err := e.statisticsFor(ctx, r)
	if err != nil {
		return nil, err
	}
	w, _ := e.server.publisher.watch()
	m := &monitoring{view: w.view, sources: sourcesOf(stats.GetNodes(), gaps), counts: countNodes(stats), states: map[instance]pb.MemberState{}}
	for _, s := range stats.GetMonitors() {
		m.states[instance{s.GetNode(), s.GetMonitor(), s.GetDataplane()}] = s.GetState()
	}
	return m, nil
}

// nodes lists the addresses and services that have monitors, in their order.
func (m *monitoring) nodes() []string {
	var list []string
	add := func(node string) {
		if names, _ := config.MonitorsOf(m.view, node); len(names) > 0 {
			list = append(list, node)
		}
	}
	ports := nodePorts(m.view)
	for _, address := range slices.SortedFunc(maps.Keys(ports), compareAddresses) {
		add(address)
		for _, port := range ports[address] {
			add(config.JoinAddress(address, port))
		}
	}
	return list
}

// instances are the monitors of a node, as a dataplane sees them.
func (m *monitoring) instances(node string, from source) []instanceView {
	names, enabled := config.MonitorsOf(m.view, node)
	views := make([]instanceView, 0, len(names))
	for _, name := range names {
		view := instanceView{
			Node: node, Monitor: name, Destination: config.MonitorDestination(m.view, name, node), State: notKnown,
			Enabled: enabled && config.MonitorEnabled(m.view, name), Dataplane: from.dataplane,
		}
		if !from.silent {
			view.State = pb.EnumWord(known(m.states[instance{node, name, from.dataplane}]))
		}
		views = append(views, view)
	}
	return views
}

// known is a state, unchecked where no dataplane says one.
func known(s pb.MemberState) pb.MemberState {
	if s == pb.MemberState_MEMBER_STATE_UNSPECIFIED {
		return pb.MemberState_MEMBER_STATE_UNCHECKED
	}
	return s
}

// node joins a node's state with its monitors.
func (m *monitoring) node(node string, from source) monitoredView {
	address, port, one := config.SplitAddress(node)
	view := monitoredView{Address: node, Dataplane: from.dataplane, Monitors: m.instances(node, from)}
	for i := range view.Monitors {
		view.Monitors[i].Node, view.Monitors[i].Dataplane = "", ""
	}
	var ports []uint16
	if one {
		ports = []uint16{port}
	}
	n := nodeViewOf(m.view, address, ports, m.counts, from)
	view.State = n.State
	if one {
		view.State, view.addressUp = n.Ports[0].State, n.State == pb.EnumWord(pb.MemberState_MEMBER_STATE_UP)
	}
	return view
}

// nodeMonitorShow prints nodes with their monitors: one, or all that have any.
func (e *execution) nodeMonitorShow(ctx context.Context, op eval.Operation) error {
	_, name := pb.SplitKey(op.Key)
	if strings.HasPrefix(name, "*:") { // not a node: what is configured for all with that port
		return e.list(op)
	}
	m, err := e.monitoring(ctx, name)
	if err != nil {
		return err
	}
	nodes := []string{name}
	if name == "" {
		nodes = m.nodes()
	}
	s, err := e.viewWriter("nodes")
	if err != nil {
		return err
	}
	between := ""
	for _, node := range nodes {
		for _, from := range m.sources {
			view := m.node(node, from)
			if err := s.add(view, func() string { return between + e.monitoredText(view) }); err != nil {
				return err
			}
			between = "|\n"
		}
	}
	return s.end()
}

func (e *execution) monitoredText(n monitoredView) string {
	state := label(n.State)
	if n.addressUp && n.State == pb.EnumWord(pb.MemberState_MEMBER_STATE_CHECKING) {
		state = "ADDR UP"
	}
	lines := []string{"+- NODE " + e.naming().address(n.Address) + " " + state + e.on(n.Dataplane), "|  |"}
	for _, i := range n.Monitors {
		lines = append(lines, "|  +- "+i.Monitor, fmt.Sprintf("|     %s %s %s", e.naming().address(i.Destination), i.State, enabledWord(i.Enabled)))
	}
	return block(lines...)
}

func enabledWord(enabled bool) string {
	if enabled {
		return "enabled"
	}
	return "disabled"
}

// monitorDump prints monitors with what they check.
func (e *execution) monitorDump(ctx context.Context, op eval.Operation) error {
	m, err := e.monitoring(ctx, "")
	if err != nil {
		return err
	}
	using := map[string][]string{}
	for _, node := range m.nodes() {
		names, _ := config.MonitorsOf(m.view, node)
		for _, name := range names {
			using[name] = append(using[name], node)
		}
	}
	s, err := e.viewWriter("monitors")
	if err != nil {
		return err
	}
	for _, monitor := range monitorsOf(m.view, op, using) {
		view := monitorViewOf(m, monitor, using[monitor.GetName()])
		if err := s.add(view, func() string { return e.monitorText(monitor, view) }); err != nil {
			return err
		}
	}
	return s.end()
}

// monitorsOf returns the monitors that a query is about: one, or all that are defined or used, and with the word all the
// templates too.
func monitorsOf(v config.View, op eval.Operation, used map[string][]string) []*pb.Monitor {
	if _, name := pb.SplitKey(op.Key); name != "" {
		if m := config.FindMonitor(v, name); m != nil {
			return []*pb.Monitor{m}
		}
		return nil
	}
	var list []*pb.Monitor
	v.Range("monitor", func(o *pb.Object) bool {
		list = append(list, o.GetMonitor())
		return true
	})
	for _, t := range pb.MonitorTemplates() {
		if wanted := words(op.Words) == "all" || used[t.GetName()] != nil; wanted && v.Get("monitor/"+t.GetName()) == nil {
			list = append(list, t)
		}
	}
	return list
}

func monitorViewOf(m *monitoring, monitor *pb.Monitor, nodes []string) monitorView {
	name := monitor.GetName()
	view := monitorView{Name: name, Use: monitor.GetUse(), Enabled: config.MonitorEnabled(m.view, name), Instances: []instanceView{}}
	view.Interval, view.Timeout = config.MonitorTimes(m.view, name)
	for _, node := range nodes {
		for _, from := range m.sources {
			for _, i := range m.instances(node, from) {
				if i.Monitor == name {
					i.Monitor = ""
					view.Instances = append(view.Instances, i)
				}
			}
		}
	}
	return view
}

func (e *execution) monitorText(monitor *pb.Monitor, view monitorView) string {
	settings := []string{}
	for _, row := range grammar.Monitors.Rows {
		if row.Field != "enabled" {
			settings = append(settings, row.Lines(monitor)...)
		}
	}
	lines := []string{"MONITOR " + view.Name + "    " + label(enabledWord(view.Enabled)), "|     " + strings.Join(settings, " ")}
	for _, i := range view.Instances {
		line := fmt.Sprintf("+-    NODE %s  %s  %s", e.naming().address(i.Node), label(i.State), label(enabledWord(i.Enabled)))
		if i.Destination != i.Node {
			line += "  dest " + e.naming().address(i.Destination)
		}
		lines = append(lines, line+e.on(i.Dataplane))
	}
	return block(lines...)
}
