package mgmtd

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"bigpipe/store/config"
)

// wanted is a configuration that every dataplane is to have. It is immutable.
type wanted struct {
	stamp
	// view is what is in effect: the stored configuration under the volatile port timeouts (rule B-19).
	view config.View
	// ports are the volatile persistence timeouts of ports under which the view is, in seconds; never modified in place.
	ports map[uint32]uint32
	// base is what changes start from; a dataplane that has another one gets a difference computed for it.
	base    stamp
	changes []config.Change
}

// stamp orders wanted configurations: by revision, and within one by sequence.
type stamp struct {
	revision, sequence uint64
}

// reaches reports whether s is other or came after it.
func (s stamp) reaches(other stamp) bool {
	return s.revision > other.revision || s.revision == other.revision && s.sequence >= other.sequence
}

// publisher shows the newest wanted configuration to all pushers.
type publisher struct {
	mu      sync.Mutex
	newest  *wanted
	changed chan struct{}
}

func newPublisher(first *wanted) *publisher {
	return &publisher{newest: first, changed: make(chan struct{})}
}

// watch returns the newest one and a channel that is closed when there is a newer one.
func (p *publisher) watch() (*wanted, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.newest, p.changed
}

func (p *publisher) publish(w *wanted) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.newest = w
	close(p.changed)
	p.changed = make(chan struct{})
}

// portChanges returns how the effective configuration differs when the volatile port timeouts change from old to new.
func portChanges(v config.View, old, new map[uint32]uint32) []config.Change {
	keys := map[string]struct{}{}
	for _, ports := range []map[uint32]uint32{old, new} {
		for port := range ports {
			v.Referrers("service/"+strconv.FormatUint(uint64(port), 10), func(from string) bool {
				for _, p := range v.Get(from).GetVirtual().GetPools() {
					keys["pool/"+p.GetPool()] = struct{}{}
				}
				return true
			})
		}
	}
	before, after := config.ApplyPortPersist(v, old), config.ApplyPortPersist(v, new)
	var changes []config.Change
	for _, key := range slices.SortedFunc(maps.Keys(keys), strings.Compare) {
		if c := (config.Change{Key: key, Old: before.Get(key), New: after.Get(key)}); c.Effective() {
			changes = append(changes, c)
		}
	}
	return changes
}
