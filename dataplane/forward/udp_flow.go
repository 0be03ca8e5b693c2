package forward

import (
	"encoding/binary"
	"errors"
	"hash/maphash"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"

	"bigpipe/dataplane/pool"
	"bigpipe/dataplane/rule"
)

// udpFlow is what a client and a UDP virtual server send each other. It belongs to a worker, whose lock guards it.
type udpFlow struct {
	key      udpKey
	listener *UDPListener
	fd       int // the socket that is connected to the member
	slot     uint32
	peer     sockaddr // the client
	back     int      // the socket that replies leave from where the listener's has another port; -1: none
	control  []byte   // makes replies leave from where the client sent to; nil where that needs no word
	began    instant
	active   instant // of the last datagram

	decision pool.Decision
	counters *pool.Counters // where the flow was counted as open
	shared   []Shared       // where too
	traffic  pool.Shard
	in, out  uint64 // bytes that were not counted yet

	newer, older *udpFlow // in the order of use
	limited      bool     // counted at its source
	ended        bool
}

// udpKey names a flow of a virtual server.
type udpKey struct {
	// peer is the client's socket address without what a client can vary within a flow.
	peer [unix.SizeofSockaddrInet6]byte
	// contact is the address that the client sent to, where the virtual server has all addresses of the host; else zero.
	contact [16]byte
	// port is the port that the client sent to, where it is not the listener's; else zero.
	port uint16
	// call is the hash of the Call-ID where pools persist by it: one client can have many calls. Zero: none.
	call uint64
}

var callSeed = maphash.MakeSeed()

// newUDPKey makes the key of a datagram from its sender, and from its call if it has one.
func newUDPKey(from *sockaddr, contact [16]byte, port uint16, call []byte) udpKey {
	k := udpKey{contact: contact, port: port}
	if len(call) > 0 {
		k.call = maphash.Bytes(callSeed, call)
	}
	if binary.NativeEndian.Uint16(from.bytes[:]) == unix.AF_INET {
		copy(k.peer[:8], from.bytes[:8])
		return k
	}
	k.peer = from.bytes
	clear(k.peer[4:8]) // the flow label
	return k
}

// client returns the client's address.
func (f *udpFlow) client() netip.AddrPort { return f.peer.addrPort() }

// contact returns the address and port that the client sent to; invalid where that is the virtual server's.
func (f *udpFlow) contact() netip.AddrPort {
	if f.key.contact == [16]byte{} {
		return netip.AddrPort{}
	}
	port := f.key.port
	if port == 0 {
		port = f.listener.addr.Port()
	}
	return netip.AddrPortFrom(netip.AddrFrom16(f.key.contact).Unmap(), port)
}

// count counts the bytes since the last call.
func (f *udpFlow) count() {
	if f.in+f.out == 0 {
		return
	}
	f.counters.Add(f.traffic, f.in, f.out, 0)
	f.decision.Count(f.in, f.out, 0)
	f.in, f.out = 0, 0
}

// admit counts the flow as open, unless the virtual server or the client has as many as it may, as with connections.
func (f *udpFlow) admit(set *Settings) bool {
	client := f.client().Addr()
	f.limited = set.SourceLimit > 0 && !set.trusts(client)
	if f.limited && !f.listener.sources.enter(sourceOf(client), set.SourceLimit) {
		f.limited = false
		return false
	}
	if !set.open() {
		f.leave()
		return false
	}
	return true
}

// leave ends what was counted at the source.
func (f *udpFlow) leave() {
	if f.limited {
		f.listener.sources.leave(sourceOf(f.client().Addr()))
	}
}

func (f *udpFlow) describe(now instant) Connection {
	c := Connection{
		Client: f.client(), Virtual: f.listener.settings.Load().Virtual, UDP: true,
		Age: time.Duration(now - f.began), Idle: time.Duration(now - f.active),
	}
	if m := f.decision.Member; m != nil {
		c.Node = m.Addr
	}
	return c
}

// choose decides where the flow goes, by its call if it has one, and connects to the member.
func (f *udpFlow) choose(set *Settings, call []byte) error {
	in := rule.Input{Client: f.client(), Server: set.Virtual, Protocol: rule.UDP}
	contact := f.contact()
	if contact.IsValid() {
		in.Server = contact
	}
	choose := pool.Input{Client: f.client(), Virtual: set.Virtual, Destination: contact, ID: call}
	if set.SplitSticks {
		in.Returning = &returning{set.Pools, choose}
	}
	c := set.route(&in)
	if c.action != rule.UsePool {
		return errGone
	}
	choose.Fresh = c.fresh
	if err := c.pool.Choose(&f.decision, &choose); err != nil {
		return err
	}
	return f.reach()
}

// reach connects to the chosen member, or the next one that there is a way to.
func (f *udpFlow) reach() error {
	for {
		err := f.dial(f.decision.Member)
		if err == nil {
			f.decision.Accepted()
			return nil
		}
		if errors.Is(err, errLocal) {
			return err
		}
		if err := f.decision.Refused(); err != nil {
			return err
		}
	}
}

// dial connects to a member. Where sockets have run out, the flow that was used longest ago gives up its own.
func (f *udpFlow) dial(m *pool.Member) error {
	to, mark := f.listener.settings.Load().destination(m, f.contact())
	if !to.IsValid() {
		return unix.EADDRNOTAVAIL
	}
	err := f.connect(to, mark)
	if errors.Is(err, errLocal) && f.listener.worker.evict(f.listener, f) {
		err = f.connect(to, mark)
	}
	return err
}

func (f *udpFlow) connect(to netip.AddrPort, mark uint32) error {
	fd, err := unix.Socket(family(to.Addr()), unix.SOCK_DGRAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return dialError(err)
	}
	if f.listener.settings.Load().Transparent {
		if err := impersonate(fd, f.client().Addr()); err != nil {
			_ = unix.Close(fd)
			return err
		}
	}
	if err := setMark(fd, mark); err != nil {
		_ = unix.Close(fd)
		return err
	}
	sa := newSockaddr(to)
	if errno := connect(fd, &sa); errno != 0 {
		_ = unix.Close(fd)
		if errno == unix.EAGAIN { // no port is left
			return errLocal
		}
		return dialError(errno)
	}
	f.fd = fd
	return nil
}

// end closes the flow.
func (f *udpFlow) end() {
	if f.ended {
		return
	}
	f.ended = true
	l := f.listener
	w := l.worker
	f.count()
	f.decision.Release()
	closeShared(f.counters, f.shared)
	f.leave()
	if f.back >= 0 && w.heldBy == f.back {
		w.flush()
	}
	for _, fd := range [...]int{f.fd, f.back} {
		if fd >= 0 {
			_ = unix.Close(fd)
		}
	}
	w.forget(f.slot)
	l.flows.remove(f)
	w.owner.open.Add(-1)
	w.owner.table.ended()
	l.closeIfDrained()
}

// udpTable finds flows by their key and knows which one was used longest ago. The zero value is empty.
type udpTable struct {
	byKey          map[udpKey]*udpFlow
	newest, oldest *udpFlow
}

func (t *udpTable) len() int { return len(t.byKey) }

// lookup returns the flow with a key, nil when there is none.
func (t *udpTable) lookup(k *udpKey) *udpFlow { return t.byKey[*k] }

// insert adds a flow that is not there yet, as the one that was used last.
func (t *udpTable) insert(f *udpFlow) {
	if t.byKey == nil {
		t.byKey = map[udpKey]*udpFlow{}
	}
	t.byKey[f.key] = f
	t.link(f)
}

// touch makes a flow the one that was used last.
func (t *udpTable) touch(f *udpFlow, now instant) {
	if f.active == now { // as often as not: the clock is coarse
		return
	}
	f.active = now
	if t.newest != f {
		t.unlink(f)
		t.link(f)
	}
}

// remove takes a flow out.
func (t *udpTable) remove(f *udpFlow) {
	delete(t.byKey, f.key)
	t.unlink(f)
}

func (t *udpTable) link(f *udpFlow) {
	f.newer, f.older = nil, t.newest
	if t.newest != nil {
		t.newest.newer = f
	} else {
		t.oldest = f
	}
	t.newest = f
}

func (t *udpTable) unlink(f *udpFlow) {
	if f.newer != nil {
		f.newer.older = f.older
	} else {
		t.newest = f.older
	}
	if f.older != nil {
		f.older.newer = f.newer
	} else {
		t.oldest = f.newer
	}
	f.newer, f.older = nil, nil
}
