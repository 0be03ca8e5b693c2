package forward

import (
	"errors"
	"io"
	"sync"

	"bigpipe/dataplane/rule"
)

// serveTCP decides once and relays.
func (s *session) serveTCP() {
	in := s.ruleInput(s.settings, nil)
	c := s.settings.route(&in)
	if c.action != rule.UsePool {
		s.client.reset()
		return
	}
	choose := s.poolInput(s.settings, &c)
	err := c.pool.Choose(&s.decision, &choose)
	if err == nil {
		err = s.reach()
	}
	if err != nil {
		s.client.reset()
		return
	}
	s.relay()
}

// relay copies both ways until both sides have ended, one has failed, or nothing moves for the idle timeout. What in and from
// hold goes first.
func (s *session) relay() {
	for _, c := range [...]*conn{&s.client, &s.server} {
		c.reader.set(0, 0)
		c.writer.set(0, 0)
	}
	s.active.Store(0)
	s.touchBoth()
	s.moving.Store(s.target)
	var back sync.WaitGroup
	back.Go(func() { s.copy(&s.client, &s.server, &s.from) })
	s.copy(&s.server, &s.client, &s.in)
	back.Wait()
}

// copy copies from src to dst. The end of src is passed on; a failure ends both directions, and resets both peers.
func (s *session) copy(dst, src *conn, b *buffer) {
	err := s.copyAll(dst, src, b)
	if errors.Is(err, io.EOF) {
		dst.closeWrite()
		return
	}
	s.killed.Store(true)
	s.client.reset()
	s.server.reset()
	for _, c := range [...]*conn{&s.client, &s.server} {
		c.end(&c.reader)
		c.end(&c.writer)
	}
}

func (s *session) copyAll(dst, src *conn, b *buffer) error {
	for {
		if b.len() > 0 {
			if err := dst.write(b.bytes()); err != nil {
				return err
			}
			b.discard(b.len())
			s.touchBoth()
		}
		if s.killed.Load() {
			return errKilled
		}
		if err := src.fill(b); err != nil {
			return err
		}
		s.touchBoth()
	}
}

// touchBoth notes progress: nothing of the session is idle. The renewal of single sides is not used in a relay, because one
// direction may rest while the other works.
func (s *session) touchBoth() {
	now := s.client.clock.nanos.Load()
	if s.active.Swap(now) == now {
		return
	}
	until := instant(now) + instant(s.settings.IdleTimeout)
	for _, c := range [...]*conn{&s.client, &s.server} {
		c.reader.move(until)
		c.writer.move(until)
	}
}
