package metrics

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	pb "bigpipe/proto/bigpipe/v1"
)

func TestPool(t *testing.T) {
	for name, want := range map[string]float64{"pain-83_share_of_the_largest_key": 0.75, "too_few_connections": 0} {
		t.Run(name, func(t *testing.T) {
			gauges := map[*prometheus.Desc]float64{}
			gauge := func(d *prometheus.Desc, v float64, _ ...string) { gauges[d] = v }
			counter := func(*prometheus.Desc, uint64, ...string) {}
			collectPool(&pb.PoolStatistics{Name: "web", Records: 4, LargestKeyShare: want, LargestKey: "10.9.9.9"}, gauge, counter, counter)
			got, ok := gauges[descLargestKey]
			if got != want || ok != (want > 0) || gauges[descPoolRecords] != 4 {
				t.Errorf("%v", gauges)
			}
		})
	}
}
