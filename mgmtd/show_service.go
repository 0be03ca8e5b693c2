package mgmtd

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"bigpipe/grammar"
	"bigpipe/grammar/eval"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

// serviceView is a service with the sums of the virtual servers that have its port.
type serviceView struct {
	Port        uint32   `json:"port"`
	Name        string   `json:"name"`
	TCP         bool     `json:"tcp"`
	UDP         bool     `json:"udp"`
	Settings    []string `json:"settings"`
	Connections counters `json:"connections"`
	Bytes       traffic  `json:"bytes"`
	Dataplane   string   `json:"dataplane,omitempty"`
}

// portAt is a port on a dataplane.
type portAt struct {
	port      uint16
	dataplane string
}

// serviceShow prints services, which exist because a virtual server has their port or because something is set for them.
func (e *execution) serviceShow(ctx context.Context, op eval.Operation) error {
	stats, gaps, err := e.statisticsFor(ctx, &pb.StatisticsRequest{})
	if err != nil {
		return err
	}
	w, _ := e.server.publisher.watch()
	sums, dataplanes := map[portAt]serviceView{}, sourcesOf(stats.GetVirtuals(), gaps)
	for _, v := range stats.GetVirtuals() {
		_, port, _ := config.SplitAddress(v.GetAddress())
		key := portAt{port, v.GetDataplane()}
		sum := sums[key]
		sum.Connections.add(countersOf(v.GetConnections()))
		sum.Bytes.add(trafficOf(v.GetBytes()))
		sums[key] = sum
	}
	s, err := e.viewWriter("services")
	if err != nil {
		return err
	}
	for _, port := range servicesOf(w.view, op.Key) {
		for _, from := range dataplanes {
			view := serviceViewOf(w.view, port, sums[portAt{port, from.dataplane}], from)
			if err := s.add(view, func() string { return e.serviceText(view) }); err != nil {
				return err
			}
		}
	}
	return s.end()
}

// servicesOf lists the ports that a query is about, in their order.
func servicesOf(v config.View, key string) []uint16 {
	if _, name := pb.SplitKey(key); name != "" {
		port, _ := strconv.ParseUint(name, 10, 16)
		return []uint16{uint16(port)}
	}
	ports := map[uint16]bool{}
	v.Range("virtual", func(o *pb.Object) bool {
		if _, port, ok := config.SplitAddress(o.GetVirtual().GetAddress()); ok {
			ports[port] = true
		}
		return true
	})
	v.Range("service", func(o *pb.Object) bool {
		ports[uint16(o.GetService().GetPort())] = true
		return true
	})
	return slices.Sorted(maps.Keys(ports))
}

// serviceViewOf adds what is configured of a service to what one dataplane counts of it.
func serviceViewOf(v config.View, port uint16, view serviceView, from source) serviceView {
	set := v.Get("service/" + strconv.Itoa(int(port))).GetService()
	view.Port, view.Name, view.Dataplane = uint32(port), grammar.ServiceName(port), from.dataplane
	view.TCP, view.UDP = set == nil || set.Tcp == nil || set.GetTcp(), set.GetUdp()
	view.Settings = []string{}
	for _, row := range grammar.Services.Rows {
		if set != nil && row.Field != "tcp" && row.Field != "udp" && row.Field != "limit" {
			view.Settings = append(view.Settings, row.Lines(set)...)
		}
	}
	view.Connections.Limit = uint64(set.GetLimit())
	view.Connections.unknown, view.Bytes.unknown = from.silent, from.silent
	return view
}

func (e *execution) serviceText(s serviceView) string {
	lines := []string{
		"SERVICE " + e.naming().port(s.Port) + "    TCP " + label(enabledWord(s.TCP)) + "  UDP " + label(enabledWord(s.UDP)) + e.on(s.Dataplane),
	}
	if len(s.Settings) > 0 {
		lines = append(lines, "      "+strings.Join(s.Settings, "  "))
	}
	return block(append(lines, "      "+connectionLine(s.Connections), "      "+bitLine(s.Bytes))...)
}
