package main

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"bigpipe/mgmtd"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store"
)

// collector shows the configuration and the state of the dataplanes to Prometheus.
type collector struct {
	store  store.Store
	server *mgmtd.Server
}

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("bigpipe_mgmtd_"+name, help, labels, nil)
}

var (
	descRevision    = desc("revision", "Number of the newest revision.")
	descPending     = desc("pending", "1 while a change waits to be confirmed.")
	descObjects     = desc("objects", "Objects of the configuration.", "kind")
	descConnected   = desc("dataplane_connected", "1 if a dataplane answers and takes what it is sent.", "dataplane")
	descApplied     = desc("dataplane_revision", "Revision that a dataplane has applied.", "dataplane")
	descNotInEffect = desc("dataplane_not_in_effect", "Objects that are applied and not in effect.", "dataplane")
)

// Describe implements prometheus.Collector. Series come and go with the configuration, so nothing is promised.
func (c collector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	truth := map[bool]float64{true: 1}
	newest := c.store.Newest()
	gauge(descRevision, float64(newest.Revision))
	gauge(descPending, truth[newest.Pending != nil])
	for _, kind := range []string{"pool", "rule", "virtual", "node", "monitor", "class", "kept"} {
		gauge(descObjects, float64(newest.Tree.Len(kind)), kind)
	}
	list, err := c.server.ListDataplanes(context.Background(), &pb.ListDataplanesRequest{})
	if err != nil {
		ch <- prometheus.NewInvalidMetric(descConnected, err)
		return
	}
	for _, d := range list.GetDataplanes() {
		gauge(descConnected, truth[d.GetConnected()], d.GetDataplane())
		gauge(descApplied, float64(d.GetRevision()), d.GetDataplane())
		gauge(descNotInEffect, float64(len(d.GetNotInEffect())), d.GetDataplane())
	}
}
