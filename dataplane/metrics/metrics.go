// Package metrics shows what a dataplane counts to Prometheus.
package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"bigpipe/dataplane"
	pb "bigpipe/proto/bigpipe/v1"
)

// collector shows an engine's statistics to Prometheus.
type collector struct {
	engine *dataplane.Engine
}

// NewCollector returns the metrics of an engine.
func NewCollector(e *dataplane.Engine) prometheus.Collector { return collector{e} }

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("bigpipe_dataplane_"+name, help, labels, nil)
}

var (
	descUptime      = desc("uptime_seconds", "Seconds since the start.")
	descRevision    = desc("applied_revision", "Revision of the configuration that is applied.")
	descNotInEffect = desc("not_in_effect", "Objects that are applied and not in effect.")
	descOpen        = desc("connections", "Open client connections.")
	descRecords     = desc("records", "Persistence records.")
	descUnkept      = desc("unkept_seconds", "For how long writing the applied configuration to the state directory has failed.")
	descEvents      = desc("events_total", "What happened, by the names of the unit's counters.", "event")

	descVirtualOpen     = desc("virtual_connections", "Open client connections of a virtual server.", "virtual")
	descVirtualTotal    = desc("virtual_connections_total", "Client connections of a virtual server.", "virtual")
	descVirtualBytes    = desc("virtual_bytes_total", "Bytes of a virtual server, in from clients and out to them.", "virtual", "direction")
	descVirtualRequests = desc("virtual_requests_total", "HTTP requests of a virtual server.", "virtual")
	descVirtualEffect   = desc("virtual_in_effect", "1 if a virtual server is in effect.", "virtual")

	descMemberOpen     = desc("member_connections", "Open connections of a member.", "pool", "member")
	descMemberTotal    = desc("member_connections_total", "Connections that a member accepted.", "pool", "member")
	descMemberBytes    = desc("member_bytes_total", "Bytes of a member, in from clients and out to them.", "pool", "member", "direction")
	descMemberRequests = desc("member_requests_total", "HTTP requests of a member.", "pool", "member")
	descMemberUsable   = desc("member_usable", "1 if new clients may be sent to a member.", "pool", "member", "state")

	descMonitorUp = desc("monitor_up", "1 if a monitor's checks of a node succeed.", "node", "monitor", "state")

	descPersist     = desc("persistence_total", "What persistence found and did for a pool.", "pool", "outcome")
	descLargestKey  = desc("pool_largest_key_share", "Part of a pool's latest connections that had its busiest persistence key, 0 to 1.", "pool")
	descPoolRecords = desc("pool_records", "Persistence records that were bound through a pool.", "pool")
)

// Describe implements prometheus.Collector. Series come and go with the configuration, so nothing is promised.
func (c collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector. Counters of virtual servers and members are there once they are not 0,
// outcomes of persistence from the start.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	counter := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	s, err := c.engine.Statistics(&pb.StatisticsRequest{})
	if err != nil {
		ch <- prometheus.NewInvalidMetric(descUptime, err)
		return
	}
	status := c.engine.Status()
	gauge(descUptime, float64(s.GetUnit().GetUptimeSeconds()))
	gauge(descRevision, float64(status.GetRevision()))
	gauge(descNotInEffect, float64(len(status.GetNotInEffect())))
	gauge(descOpen, float64(s.GetUnit().GetConnections().GetCurrent()))
	gauge(descRecords, float64(s.GetUnit().GetRecords()))
	gauge(descUnkept, c.engine.Unkept().Seconds())
	for event, n := range s.GetUnit().GetCounters() {
		if event != dataplane.UnkeptSeconds {
			counter(descEvents, n, event)
		}
	}
	// Of the many objects that saw no traffic, counters would be most of what a scrape holds.
	counted := func(d *prometheus.Desc, v uint64, labels ...string) {
		if v > 0 {
			counter(d, v, labels...)
		}
	}
	for _, v := range s.GetVirtuals() {
		name := v.GetAddress()
		gauge(descVirtualOpen, float64(v.GetConnections().GetCurrent()), name)
		counted(descVirtualTotal, v.GetConnections().GetTotal(), name)
		counted(descVirtualBytes, v.GetBytes().GetIn(), name, "in")
		counted(descVirtualBytes, v.GetBytes().GetOut(), name, "out")
		counted(descVirtualRequests, v.GetRequests(), name)
		gauge(descVirtualEffect, oneIf(v.GetInEffect()), name)
	}
	for _, m := range s.GetMonitors() {
		up := m.GetState() == pb.MemberState_MEMBER_STATE_UP
		gauge(descMonitorUp, oneIf(up), m.GetNode(), m.GetMonitor(), pb.EnumWord(m.GetState()))
	}
	for _, p := range s.GetPools() {
		outcomes := counted
		if p.GetPersistMode() != pb.PersistMode_PERSIST_MODE_NONE {
			outcomes = counter // from the start
		}
		collectPool(p, gauge, counted, outcomes)
	}
}

func collectPool(p *pb.PoolStatistics, gauge func(*prometheus.Desc, float64, ...string), counted, outcomes func(*prometheus.Desc, uint64, ...string)) {
	name := p.GetName()
	for _, m := range p.GetMembers() {
		state := m.GetState()
		usable := state == pb.MemberState_MEMBER_STATE_UP || state == pb.MemberState_MEMBER_STATE_UNCHECKED
		gauge(descMemberUsable, oneIf(usable), name, m.GetAddress(), pb.EnumWord(state))
		gauge(descMemberOpen, float64(m.GetConnections().GetCurrent()), name, m.GetAddress())
		counted(descMemberTotal, m.GetConnections().GetTotal(), name, m.GetAddress())
		counted(descMemberBytes, m.GetBytes().GetIn(), name, m.GetAddress(), "in")
		counted(descMemberBytes, m.GetBytes().GetOut(), name, m.GetAddress(), "out")
		counted(descMemberRequests, m.GetRequests(), name, m.GetAddress())
	}
	gauge(descPoolRecords, float64(p.GetRecords()), name)
	if share := p.GetLargestKeyShare(); share > 0 {
		gauge(descLargestKey, share, name)
	}
	out := p.GetPersistence().ProtoReflect()
	for i := range out.Descriptor().Fields().Len() {
		f := out.Descriptor().Fields().Get(i)
		outcomes(descPersist, out.Get(f).Uint(), name, string(f.Name()))
	}
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
