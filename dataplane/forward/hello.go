package forward

import (
	"io"
	"sync"
	"time"

	"bigpipe/dataplane/rdp"
	"bigpipe/dataplane/rule"
	"bigpipe/dataplane/tlshello"
)

// greeting is what TLS says in the clear at the beginning of a connection: the client's hello decides about the member (rule
// A-2), the member's answer about who comes back to it (rule A-5). All bytes are passed on as they came.
type greeting struct {
	f      *flow
	client tlshello.Client
	server tlshello.Server
	chosen bool // the client's hello was read; now the member's answer is
	// request is what a client of terminal services says instead, where pools persist by it.
	request rdp.Request
}

var greetings = sync.Pool{New: func() any { return &greeting{} }}

// drop gives the memory back. Nil has none.
func (g *greeting) drop() {
	if g == nil {
		return
	}
	g.f, g.chosen, g.request = nil, false, rdp.Request{}
	g.client.Reset()
	g.server.Reset()
	greetings.Put(g)
}

// splitsByHello is how long to wait for a client's hello before the settings are asked, because they split clients among pools of
// which one needs it: each time that they are asked counts in the split. Zero: they are asked at once.
func (set *Settings) splitsByHello() (within time.Duration) {
	if set.Rule == nil || !set.Rule.Splits() {
		return 0
	}
	for _, p := range set.Pools {
		if p != nil {
			within = max(within, p.HelloTimeout)
		}
	}
	return within
}

// routeTCP asks the settings; the hello is nil where none was read.
func (f *flow) routeTCP(hello *tlshello.Client) choice {
	in := f.ruleInput(f.settings, nil)
	if f.settings.SplitSticks {
		known := f.poolInput(f.settings, &choice{})
		known.Hello = hello
		in.Returning = &returning{f.settings.Pools, known}
	}
	return f.settings.route(&in)
}

// awaitHello makes the relay begin with the client's hello, which must come within a time.
func (r *relay) awaitHello(within time.Duration) {
	g := greetings.Get().(*greeting)
	g.f = r.f
	r.up.greeting = g
	r.f.client.until(&r.f.client.reader, within)
}

// greet reads the client's hello as far as it has come, and chooses the member when it is known what the client brings: done. Who
// says nothing in time, or ends the connection within the hello, is not served; half a hello is passed on when the time is over
// (rule A-P7).
func (r *relay) greet(late bool) (done bool, err error) {
	s := &r.up
	for !r.greeted() && !late {
		if s.readable == readNothing {
			s.buffer.shrink()
			return false, nil
		}
		if err := s.read(); err != nil {
			return false, err
		}
		if s.src.ended {
			return false, io.EOF
		}
		r.f.touch()
	}
	if s.buffer.len() == 0 {
		return false, io.EOF
	}
	r.spoke(s)
	return true, r.chooseByHello()
}

// greeted reports whether what the client begins with is there.
func (r *relay) greeted() (done bool) {
	g := r.up.greeting
	done = g.client.State() != tlshello.Pending
	if r.f.settings.users {
		var asked bool
		g.request, asked = rdp.Read(r.up.buffer.bytes())
		done = done && asked
	}
	return done
}

// chooseByHello chooses a member by the settings of now: they may have changed while the hello was waited for.
func (r *relay) chooseByHello() error {
	f, g := r.f, r.up.greeting
	if now := f.listener.settings.Load(); !now.HTTP {
		f.settings = now
	}
	c := f.routeTCP(&g.client)
	if c.action != rule.UsePool {
		return errKilled
	}
	choose := f.poolInput(f.settings, &c)
	choose.Hello, choose.ID, choose.Named = &g.client, g.request.User, g.request.Member
	if err := c.pool.Choose(&f.decision, &choose); err != nil {
		return err
	}
	r.connecting, r.up.greeting = true, nil
	if sessions, tickets := f.decision.Learns(); sessions {
		g.chosen, g.server.Tickets = true, tickets
		r.down.greeting = g
	} else {
		g.drop()
	}
	return nil
}

// listen reads what has come: a part of the hello, or of the answer, which is learned from before the client gets it.
func (s *stream) listen(b []byte) {
	g := s.greeting
	if !g.chosen {
		g.client.Feed(b)
		return
	}
	if news := g.server.Feed(b); news != 0 {
		g.f.decision.Learn(news, &g.client, &g.server)
	}
	if g.server.Done() {
		s.greeting = nil
		g.drop()
	}
}
