package dataplane

import (
	"cmp"
	"iter"
	goruntime "runtime"
	"slices"

	"bigpipe/dataplane/persist"
)

const (
	// pageLeast is how many records are sorted at a time, at least.
	pageLeast = 4096
	// pages is about how often a large table is walked to be listed in order; each walk holds this part of it.
	pages = 16
	// sortSlice is how many records are compared without a pause for connections: about 100 microseconds.
	sortSlice = 1024
)

// recordOrder is the order in which records are listed: by pool, kind, virtual server and key. It is the same in each process.
type recordOrder struct {
	// place is that of a pool among all, by name. Pools that are not there come last.
	place map[persist.PoolID]int
}

func (r *runtime) recordOrder() *recordOrder {
	o := &recordOrder{place: make(map[persist.PoolID]int, len(r.pools))}
	for i, name := range sortedKeys(r.pools) {
		o.place[r.pools[name].ID] = i
	}
	return o
}

func (o *recordOrder) placeOf(id persist.PoolID) int {
	if i, ok := o.place[id]; ok {
		return i
	}
	return len(o.place)
}

func (o *recordOrder) compare(a, b *persist.Record) int {
	if a.Pool != b.Pool {
		if n := cmp.Or(cmp.Compare(o.placeOf(a.Pool), o.placeOf(b.Pool)), cmp.Compare(a.Pool, b.Pool)); n != 0 {
			return n
		}
	}
	return a.Key.Compare(&b.Key)
}

// listed returns what a walk finds in order, page by page: each but the last holds as many as size, and takes a walk. What is
// there all the time comes once.
func (o *recordOrder) listed(walk iter.Seq[persist.Record], size int) iter.Seq[*persist.Record] {
	return func(yield func(*persist.Record) bool) {
		var after *persist.Record
		for {
			page := o.page(walk, after, size)
			for _, r := range page {
				if !yield(r) {
					return
				}
			}
			if len(page) < size {
				return
			}
			after = page[size-1]
		}
	}
}

// page returns the first records after one, or from the beginning, of those that a walk finds; size at most.
func (o *recordOrder) page(walk iter.Seq[persist.Record], after *persist.Record, size int) []*persist.Record {
	var page []*persist.Record
	var beyond *persist.Record // it and what is after it is not on the page
	trim := func() {
		steps := 0
		slices.SortFunc(page, func(a, b *persist.Record) int {
			if steps++; steps%sortSlice == 0 {
				goruntime.Gosched() // connections come first
			}
			return o.compare(a, b)
		})
		if len(page) > size {
			clear(page[size:])
			page = page[:size]
		}
		if len(page) == size {
			beyond = page[size-1]
		}
	}
	for r := range walk {
		if after != nil && o.compare(&r, after) <= 0 || beyond != nil && o.compare(&r, beyond) >= 0 {
			continue
		}
		one := r
		if page = append(page, &one); len(page) >= 2*size {
			trim()
		}
	}
	trim()
	return page
}
