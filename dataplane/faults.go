package dataplane

import (
	"cmp"
	"slices"
	"strings"

	pb "bigpipe/proto/bigpipe/v1"
)

// fault notes why an object is not in effect; no reason is no fault.
func (r *runtime) fault(key string, reasons ...string) {
	if len(reasons) > 0 {
		r.faults[key] = strings.ReplaceAll(strings.Join(reasons, "; "), "\n", "; ")
	}
}

// notInEffect lists what is not in effect now, in the order of keys.
func (e *Engine) notInEffect() []*pb.NotInEffect {
	r, list := e.running.Load(), e.health.faults()
	for key, reason := range r.faults {
		list = append(list, &pb.NotInEffect{Key: key, Reason: reason})
	}
	for name, v := range r.virtuals {
		if reason := v.reason(); reason != "" {
			list = append(list, &pb.NotInEffect{Key: "virtual/" + name, Reason: reason})
		}
	}
	slices.SortStableFunc(list, func(a, b *pb.NotInEffect) int { return cmp.Compare(a.Key, b.Key) })
	return list
}
