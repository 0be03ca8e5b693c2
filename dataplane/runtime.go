package dataplane

import (
	"maps"
	"net/netip"
	"sync"

	"bigpipe/dataplane/persist"
	"bigpipe/dataplane/pool"
	"bigpipe/dataplane/rule"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

// runtime is what runs for one configuration. It is immutable; the engine replaces it whole. Its virtual servers are
// handed over from one to the next.
type runtime struct {
	view *config.Tree
	// applied is what was said of the configuration; never nil. Its protocol is 0 before the first, and where a damaged
	// journal gave only a part.
	applied  *pb.ApplyHeader
	pools    map[string]*pool.Pool
	rules    map[string]*rule.Rule // without those that cannot be compiled
	virtuals map[string]*virtual
	draining map[string]struct{} // pools with a disabled member whose time will be over
	idsOnce  sync.Once
	ids      map[persist.PoolID]*pool.Pool // see poolByID
	// faults says of keys why they are not in effect, whatever the host looks like. What depends on the host is with
	// the virtual servers.
	faults map[string]string
	// gateway is the mark of packets for which a member is the next hop.
	gateway func(member netip.Addr) uint32
}

// derive returns a runtime that can still be changed, with all that stays.
func (r *runtime) derive(view *config.Tree, applied *pb.ApplyHeader) *runtime {
	next := &runtime{
		view: view, applied: applied, gateway: r.gateway,
		pools: maps.Clone(r.pools), rules: maps.Clone(r.rules), virtuals: maps.Clone(r.virtuals), faults: maps.Clone(r.faults),
		draining: maps.Clone(r.draining),
	}
	if r.pools == nil {
		next.pools, next.rules = map[string]*pool.Pool{}, map[string]*rule.Rule{}
		next.virtuals, next.faults = map[string]*virtual{}, map[string]string{}
		next.draining = map[string]struct{}{}
	}
	return next
}

// dirty collects the names of what has to be compiled anew.
type dirty struct {
	view     *config.Tree
	pools    map[string]struct{}
	rules    map[string]struct{}
	virtuals map[string]struct{}

	passed map[string]struct{} // keys whose referrers are marked
	shared bool                // the pools that know each other's cookies are marked
}

// affected says what the changes that led to the view touch: the objects themselves and what refers to them.
func affected(view *config.Tree, changes []config.Change) *dirty {
	d := &dirty{
		view: view, pools: map[string]struct{}{}, rules: map[string]struct{}{}, virtuals: map[string]struct{}{},
		passed: map[string]struct{}{},
	}
	ports := map[uint16]struct{}{}
	for _, c := range changes {
		kind, name := pb.SplitKey(c.Key)
		switch kind {
		case "pool":
			d.pools[name] = struct{}{}
			if pool.JoinsServices(c.Old.GetPool()) || pool.JoinsServices(c.New.GetPool()) {
				d.joined()
			}
			d.weighed(c.Old.GetPool())
			d.weighed(c.New.GetPool())
		case "rule":
			d.rules[name] = struct{}{}
		case "virtual":
			d.virtuals[name] = struct{}{}
		case "global":
			d.all()
		case "service":
			ports[uint16(max(c.Old.GetService().GetPort(), c.New.GetService().GetPort()))] = struct{}{}
		}
		d.referrers(c.Key)
	}
	if len(ports) > 0 {
		d.services(ports)
	}
	return d
}

// referrers marks what refers to a key, and what refers to that. A rule is compiled without its pools, so it is only
// passed through unless one of its classes changed.
func (d *dirty) referrers(key string) {
	if _, done := d.passed[key]; done {
		return
	}
	d.passed[key] = struct{}{}
	of, _ := pb.SplitKey(key)
	d.view.Referrers(key, func(from string) bool {
		switch kind, name := pb.SplitKey(from); kind {
		case "virtual":
			d.virtuals[name] = struct{}{}
		case "rule":
			if of == "class" {
				d.rules[name] = struct{}{}
			}
			d.referrers(from)
		case "pool":
			if _, known := d.pools[name]; !known {
				d.pools[name] = struct{}{}
				d.referrers(from)
			}
		}
		return true
	})
}

// all marks everything: the variables of the unit reach everywhere.
func (d *dirty) all() {
	mark := func(kind string, set map[string]struct{}) {
		d.view.Range(kind, func(o *pb.Object) bool {
			_, name := pb.SplitKey(o.Key())
			set[name] = struct{}{}
			return true
		})
	}
	mark("pool", d.pools)
	mark("virtual", d.virtuals)
}

// joined marks the pools that know each other's cookies.
func (d *dirty) joined() {
	if d.shared {
		return
	}
	d.shared = true
	d.view.Range("pool", func(o *pb.Object) bool {
		if pool.JoinsServices(o.GetPool()) {
			d.pools[o.GetPool().GetName()] = struct{}{}
			d.referrers(o.Key())
		}
		return true
	})
}

// weighed marks the pools that have members of a pool in common whose mode is response: these weigh there what they weigh here (rule
// M-6).
func (d *dirty) weighed(p *pb.Pool) {
	if p == nil || config.LbModeOf(d.view, p) != pb.LbMode_LB_MODE_RESPONSE {
		return
	}
	for _, m := range p.GetMembers() {
		d.referrers("node/" + m.GetAddress())
	}
}

// sealed marks the pools whose cookies or tokens are encrypted with keys.
func (d *dirty) sealed() {
	d.view.Range("pool", func(o *pb.Object) bool {
		p := o.GetPool()
		if p.GetCookieEncryption() > pb.CookieEncryption_COOKIE_ENCRYPTION_DISABLED ||
			config.PersistModeOf(p) == pb.PersistMode_PERSIST_MODE_TOKEN {
			d.pools[p.GetName()] = struct{}{}
			d.referrers(o.Key())
		}
		return true
	})
}

// services marks the pools with members on some ports.
func (d *dirty) services(ports map[uint16]struct{}) {
	d.view.Range("pool", func(o *pb.Object) bool {
		for _, m := range o.GetPool().GetMembers() {
			_, port, _ := config.SplitAddress(m.GetAddress())
			if _, changed := ports[port]; changed {
				d.pools[o.GetPool().GetName()] = struct{}{}
				d.referrers(o.Key())
				break
			}
		}
		return true
	})
}

// compilePools replaces the dirty pools and returns how records of old ones must change.
func (r *runtime) compilePools(names map[string]struct{}, env *pool.Env) *retiming {
	env.View = r.view
	t := &retiming{pools: map[persist.PoolID]*pool.Pool{}, find: r.poolByID}
	for name := range names {
		old := r.pools[name]
		delete(r.faults, "pool/"+name)
		delete(r.draining, name)
		c := config.FindPool(r.view, name)
		if c == nil {
			delete(r.pools, name)
			t.note(old, nil)
			continue
		}
		next, reasons := pool.Compile(c, env, old)
		if c.GetForward() {
			reasons = append(reasons, "forward")
		}
		r.pools[name] = next
		if next.Drains() {
			r.draining[name] = struct{}{}
		}
		r.fault("pool/"+name, reasons...)
		t.note(old, next)
	}
	return t
}

func (r *runtime) compileRules(names map[string]struct{}) {
	classes := func(name string) *pb.Class { return r.view.Get("class/" + name).GetClass() }
	for name := range names {
		delete(r.faults, "rule/"+name)
		old := r.rules[name]
		delete(r.rules, name)
		c := config.FindRule(r.view, name)
		if c == nil {
			continue
		}
		compiled, err := rule.Compile(c, classes, old)
		if err != nil {
			r.fault("rule/"+name, err.Error())
			continue
		}
		r.rules[name] = compiled
	}
}
