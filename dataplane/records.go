package dataplane

import (
	"cmp"
	"fmt"
	"iter"
	"net/netip"
	"slices"
	"strings"
	"time"

	"bigpipe/dataplane/persist"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

// recordFilter chooses records: what the table can tell by itself, and the rest.
type recordFilter struct {
	table   persist.Filter
	scope   *string        // its text; nil: all
	address netip.Addr     // of the scope; the zero value: all
	kinds   []persist.Kind // empty: all
}

var modeKinds = map[pb.PersistMode][]persist.Kind{
	pb.PersistMode_PERSIST_MODE_SIMPLE: {persist.Simple},
	pb.PersistMode_PERSIST_MODE_STICKY: {persist.Sticky},
	pb.PersistMode_PERSIST_MODE_SSL:    {persist.SSL, persist.Ticket},
	pb.PersistMode_PERSIST_MODE_SIP:    {persist.SIP},
	pb.PersistMode_PERSIST_MODE_MSRDP:  {persist.MSRDP},
	pb.PersistMode_PERSIST_MODE_COOKIE: {persist.Cookie},
}

func modeOf(kind persist.Kind) pb.PersistMode {
	for mode, kinds := range modeKinds {
		if slices.Contains(kinds, kind) {
			return mode
		}
	}
	return pb.PersistMode_PERSIST_MODE_UNSPECIFIED
}

func newRecordFilter(f *pb.RecordFilter) (*recordFilter, error) {
	r := &recordFilter{}
	if f.GetClient() != "" {
		if err := r.table.SetClient(f.GetClient()); err != nil {
			return nil, err
		}
	}
	if f.GetNode() != "" {
		node, err := parseNode(f.GetNode())
		if err != nil {
			return nil, err
		}
		r.table.Node = node
	}
	if f.GetPool() != "" {
		r.table.Pool = persist.PoolIDOf(f.GetPool())
	}
	if f != nil && f.Virtual != nil {
		if err := r.setVirtual(f.GetVirtual()); err != nil {
			return nil, err
		}
	}
	if f != nil && f.Mode != nil {
		r.kinds = modeKinds[f.GetMode()]
		if len(r.kinds) == 0 {
			return nil, fmt.Errorf("mode %s keeps no records", pb.EnumWord(f.GetMode()))
		}
	}
	r.table.Older = time.Duration(min(f.GetOlderSeconds(), 1<<33)) * time.Second
	return r, nil
}

// parseNode reads "ADDRESS" or "ADDRESS:PORT"; port 0 is any port.
func parseNode(text string) (netip.AddrPort, error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		return netip.AddrPortFrom(addr.Unmap(), 0), nil
	}
	node, err := netip.ParseAddrPort(text)
	if err != nil {
		return node, fmt.Errorf("node %q is not an address or an address and port", text)
	}
	return unmapped(node), nil
}

// setVirtual reads who shares the records: "" all virtual servers, "ADDRESS:*" those of an address, "ADDRESS:PORT" nobody. An
// "ADDRESS" chooses all records of that address.
func (f *recordFilter) setVirtual(text string) error {
	if addr, err := netip.ParseAddr(text); err == nil {
		f.address = addr.Unmap()
		return nil
	}
	if text == "" {
		f.scope = &text
		return nil
	}
	address, shared := strings.CutSuffix(text, ":*")
	if shared {
		address += ":0"
	}
	addr, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("virtual server %q is not ADDRESS:PORT, ADDRESS:* or ADDRESS", text)
	}
	text = unmapped(addr).String()
	if shared {
		text = persist.Scope{Addr: addr.Addr().Unmap()}.Virtual()
	}
	f.scope = &text
	return nil
}

func (f *recordFilter) match(r *persist.Record) bool {
	scope := r.Key.Scope()
	return (f.scope == nil || *f.scope == scope.Virtual()) &&
		(!f.address.IsValid() || f.address == scope.Addr) &&
		(len(f.kinds) == 0 || slices.Contains(f.kinds, r.Key.Kind()))
}

// poolNames finds names by the IDs that records have.
func (r *runtime) poolNames() map[persist.PoolID]string {
	names := make(map[persist.PoolID]string, len(r.pools))
	for name, p := range r.pools {
		names[p.ID] = name
	}
	return names
}

// sortedMost is how many connections are sorted before they are listed; more come as they are found.
const sortedMost = 4096

// sortedIfFew lists what a sequence lists, sorted if that is not too much to be held.
func sortedIfFew[T any](all iter.Seq[T], compare func(a, b T) int) iter.Seq[T] {
	return func(yield func(T) bool) {
		few, many := []T{}, false
		for v := range all {
			if many {
				if !yield(v) {
					return
				}
				continue
			}
			if few = append(few, v); len(few) <= sortedMost {
				continue
			}
			many = true
			for _, v := range few {
				if !yield(v) {
					return
				}
			}
		}
		if many {
			return
		}
		slices.SortFunc(few, compare)
		for _, v := range few {
			if !yield(v) {
				return
			}
		}
	}
}

// compareAddresses compares texts. Addresses, with or without ports, are compared by their numbers and go before other texts.
func compareAddresses(a, b string) int {
	at, errA := parseNode(a)
	bt, errB := parseNode(b)
	switch {
	case errA == nil && errB == nil:
		return at.Compare(bt)
	case errA != nil && errB != nil:
		return cmp.Compare(a, b)
	case errA == nil:
		return -1
	}
	return 1
}

// Records lists the persistence records that a filter chooses, in the order of their pools' names, modes, virtual servers and
// keys; nil chooses all. Of a large table a part is held at a time. The error says what is wrong with the filter.
func (e *Engine) Records(filter *pb.RecordFilter) (iter.Seq[*pb.Record], error) {
	f, err := newRecordFilter(filter)
	if err != nil {
		return nil, err
	}
	rt := e.running.Load()
	names, order := rt.poolNames(), rt.recordOrder()
	walk := func(yield func(persist.Record) bool) {
		for r := range e.records.List(f.table) {
			if f.match(&r) && !yield(r) {
				return
			}
		}
	}
	return func(yield func(*pb.Record) bool) {
		for r := range order.listed(walk, max(pageLeast, e.records.Len()/pages)) {
			if !yield(recordMessage(r, names)) {
				return
			}
		}
	}, nil
}

func recordMessage(r *persist.Record, names map[persist.PoolID]string) *pb.Record {
	m := &pb.Record{
		Pool:        names[r.Pool],
		Mode:        modeOf(r.Key.Kind()),
		Key:         r.Key.String(),
		Virtual:     r.Key.Scope().Virtual(),
		Node:        r.Node.String(),
		AgeSeconds:  wholeSeconds(r.Age),
		Connections: uint32(r.Open),
	}
	if r.Remaining != persist.Forever {
		m.ExpiresInSeconds = new(wholeSeconds(r.Remaining))
	}
	return m
}

// ClearRecords removes the records that a filter chooses, and returns how many. Connections go on. What is cleared does not come
// back when the process is killed then.
func (e *Engine) ClearRecords(filter *pb.RecordFilter) (uint64, error) {
	f, err := newRecordFilter(filter)
	if err != nil {
		return 0, err
	}
	e.mu.Lock() // what is cleared is not handed over
	defer e.mu.Unlock()
	if e.handed {
		return 0, ErrHandedOver
	}
	cleared := e.records.Clear(f.table, func(r *persist.Record) bool { return !f.match(r) })
	if cleared > 0 && e.recordFile != nil {
		e.recordFile.flush(0)
	}
	return uint64(cleared), nil
}

// Forecast tells of each member at a node, "ADDRESS" or "ADDRESS:PORT", who is still bound to it and for how long.
func (e *Engine) Forecast(node string) (*pb.ForecastReply, error) {
	at, err := parseNode(node)
	if err != nil {
		return nil, err
	}
	rt := e.running.Load()
	type place struct {
		pool persist.PoolID
		node netip.AddrPort
	}
	found := map[place]*forecast{}
	for r := range e.records.List(persist.Filter{Node: at}) {
		p := place{r.Pool, r.Node}
		if found[p] == nil {
			found[p] = &forecast{}
		}
		found[p].add(&r)
	}
	reply := &pb.ForecastReply{}
	for _, name := range sortedKeys(rt.pools) {
		p := rt.pools[name]
		for _, m := range p.Members() {
			if m.Addr.Addr() != at.Addr() || at.Port() != 0 && m.Addr.Port() != at.Port() {
				continue
			}
			member := &pb.ForecastMember{Pool: name, Node: m.Addr.String(), Connections: uint32(m.Counters().Current()), PersistMode: p.PersistMode()}
			found[place{p.ID, m.Addr}].fill(member)
			reply.Members = append(reply.Members, member)
		}
	}
	return reply, nil
}

// forecast sums the records of one member. Nil is none.
type forecast struct {
	clients uint64
	seen    time.Duration // since the last use of the last one
	empty   time.Duration
	forever bool
}

func (f *forecast) add(r *persist.Record) {
	if f.clients == 0 || r.Idle < f.seen {
		f.seen = r.Idle
	}
	f.clients++
	f.forever = f.forever || r.Remaining == persist.Forever
	f.empty = max(f.empty, r.Remaining)
}

func (f *forecast) fill(m *pb.ForecastMember) {
	unknown := m.GetPersistMode() != pb.PersistMode_PERSIST_MODE_NONE && !config.KeepsRecords(m.GetPersistMode())
	if f == nil && !unknown {
		m.EmptyInSeconds = new(uint64(0))
	}
	if f == nil {
		return
	}
	m.Clients, m.LastSeenSeconds = f.clients, new(wholeSeconds(f.seen))
	if !f.forever && !unknown {
		m.EmptyInSeconds = new(wholeSeconds(f.empty))
	}
}
