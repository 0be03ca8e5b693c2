package forward

import (
	"errors"
	"io"
	"sync"

	"bigpipe/dataplane/rule"
)

// serveTCP decides once and relays.
func (f *flow) serveTCP() {
	in := f.ruleInput(f.settings, nil)
	c := f.settings.route(&in)
	if c.action != rule.UsePool {
		f.client.reset()
		return
	}
	choose := f.poolInput(f.settings, &c)
	err := c.pool.Choose(&f.decision, &choose)
	if err == nil {
		err = f.reach()
	}
	if err != nil {
		f.client.reset()
		return
	}
	f.relay()
}

// relay copies both ways until both sides have ended, one has failed, or nothing moves for the idle timeout. What in and from
// hold goes first.
func (f *flow) relay() {
	for _, c := range [...]*conn{&f.client, f.server} {
		c.reader.set(0, 0)
		c.writer.set(0, 0)
	}
	f.active.Store(0)
	f.touchBoth()
	f.moving.Store(f.target)
	var back sync.WaitGroup
	back.Go(func() { f.copy(&f.client, f.server, &f.from) })
	f.copy(f.server, &f.client, &f.in)
	back.Wait()
}

// copy copies from src to dst. The end of src is passed on; a failure ends both directions, and resets both peers.
func (f *flow) copy(dst, src *conn, b *buffer) {
	err := f.copyAll(dst, src, b)
	if errors.Is(err, io.EOF) {
		dst.closeWrite()
		return
	}
	f.killed.Store(true)
	f.client.reset()
	f.server.reset()
	for _, c := range [...]*conn{&f.client, f.server} {
		c.end(&c.reader)
		c.end(&c.writer)
	}
}

func (f *flow) copyAll(dst, src *conn, b *buffer) error {
	for {
		if b.len() > 0 {
			if err := dst.write(b.bytes()); err != nil {
				return err
			}
			b.discard(b.len())
			f.touchBoth()
		}
		if f.killed.Load() {
			return errKilled
		}
		if err := src.fill(b); err != nil {
			return err
		}
		f.touchBoth()
	}
}

// touchBoth notes progress: nothing of the flow is idle. The renewal of single sides is not used in a relay, because one
// direction may rest while the other works.
func (f *flow) touchBoth() {
	now := f.client.clock.nanos.Load()
	if f.active.Swap(now) == now {
		return
	}
	until := instant(now) + instant(f.settings.IdleTimeout)
	for _, c := range [...]*conn{&f.client, f.server} {
		c.reader.move(until)
		c.writer.move(until)
	}
}
