package rule

import (
	"errors"
	"fmt"
	"slices"

	"bigpipe/dataplane/balance"
	pb "bigpipe/proto/bigpipe/v1"
)

// Error is a part of a rule that cannot be compiled.
type Error struct {
	// Position is where the part stands in the configuration's text; nil when that is not known.
	Position *pb.Position
	Text     string
}

func (e *Error) Error() string {
	if e.Position == nil {
		return e.Text
	}
	return fmt.Sprintf("%s:%d:%d: %s", e.Position.GetFile(), e.Position.GetLine(), e.Position.GetColumn(), e.Text)
}

// compiler turns the tree into functions. Where a part cannot be compiled it notes the fault, returns a function that is never
// used, and goes on, so that all faults come out.
type compiler struct {
	rule     *Rule
	previous *Rule // nil: none
	classes  Classes
	where    *pb.Position // of the statement or expression that is being compiled
	faults   []error
}

func (c *compiler) result() (*Rule, error) {
	if len(c.faults) > 0 {
		return nil, errors.Join(c.faults...)
	}
	return c.rule, nil
}

func (c *compiler) fault(format string, args ...any) {
	c.faults = append(c.faults, &Error{Position: c.where, Text: fmt.Sprintf(format, args...)})
}

// at makes p the place of what follows, if it is known, and returns a function that puts the former place back.
func (c *compiler) at(p *pb.Position) func() {
	before := c.where
	if p != nil {
		c.where = p
	}
	return func() { c.where = before }
}

func (c *compiler) statement(s *pb.RuleStatement) statement {
	defer c.at(s.GetPosition())()
	switch k := s.GetKind().(type) {
	case *pb.RuleStatement_If:
		return c.branch(k.If)
	case *pb.RuleStatement_Use:
		return c.use(k.Use)
	case *pb.RuleStatement_Discard:
		return always(Decision{Action: Discard})
	case *pb.RuleStatement_Redirect:
		return c.redirect(k.Redirect)
	case *pb.RuleStatement_Block:
		return c.block(k.Block)
	case *pb.RuleStatement_Cache:
		c.fault("cache is not supported in a rule")
	case *pb.RuleStatement_Hash:
		c.fault("hash is not supported in a rule")
	default:
		c.fault("a statement is missing")
	}
	return nil
}

func always(d Decision) statement {
	return func(*Input) (Decision, bool) { return d, true }
}

func (c *compiler) branch(s *pb.RuleIf) statement {
	holds, then := c.condition(s.GetCondition()), c.statement(s.GetThen())
	if s.GetElse() == nil {
		return func(in *Input) (Decision, bool) {
			if holds(in) {
				return then(in)
			}
			return Decision{}, false
		}
	}
	otherwise := c.statement(s.GetElse())
	return func(in *Input) (Decision, bool) {
		if holds(in) {
			return then(in)
		}
		return otherwise(in)
	}
}

func (c *compiler) block(b *pb.RuleBlock) statement {
	var list []statement
	for _, s := range b.GetStatements() {
		list = append(list, c.statement(s))
	}
	if len(list) == 1 {
		return list[0]
	}
	return func(in *Input) (Decision, bool) {
		for _, s := range list {
			if d, ok := s(in); ok {
				return d, true
			}
		}
		return Decision{}, false
	}
}

func (c *compiler) redirect(r *pb.RuleRedirect) statement {
	if r.GetUrl() == "" {
		c.fault("redirect without a URL")
	}
	return always(Decision{Action: Redirect, Location: NewLocation(r.GetUrl())})
}

func (c *compiler) use(u *pb.RuleUse) statement {
	if u.GetSelector() != "" {
		c.fault("use of %q before the pool is not supported", u.GetSelector())
	}
	d := Decision{Action: UsePool, PersistNone: u.GetPersistNone()}
	switch pools := u.GetPools(); len(pools) {
	case 0:
		c.fault("use without a pool")
		return nil
	case 1:
		d.Pool = c.pool(pools[0].GetPool())
		return always(d)
	}
	return c.split(u.GetPools(), d)
}

// split deals connections out to pools by their weights. A pool of weight 0 gets none but those of clients that return to it;
// of several pools that know a client the first takes it.
func (c *compiler) split(pools []*pb.WeightedPool, d Decision) statement {
	var all, indexes []int
	var shares []balance.Member
	for _, p := range pools {
		weight := uint32(1)
		if p.Weight != nil {
			weight = p.GetWeight()
		}
		i := c.pool(p.GetPool())
		all = append(all, i)
		if weight > 0 {
			indexes, shares = append(indexes, i), append(shares, balance.Member{Name: p.GetPool(), Weight: weight})
		}
	}
	picker := c.picker(shares)
	return func(in *Input) (Decision, bool) {
		d := d
		if in.Returning != nil && !d.PersistNone {
			for _, d.Pool = range all {
				if in.Returning.Knows(d.Pool) {
					return d, true
				}
			}
		}
		i, ok := picker.Pick(balance.Ask{})
		if !ok {
			return Decision{}, true
		}
		d.Pool = indexes[i]
		return d, true
	}
}

// picker makes the picker of the next split. It takes over from the one of the previous rule that has its place there.
func (c *compiler) picker(shares []balance.Member) balance.Picker {
	var old balance.Picker
	if n := len(c.rule.splits); c.previous != nil && n < len(c.previous.splits) {
		old = c.previous.splits[n]
	}
	picker := balance.New(balance.RatioMember, shares, old)
	c.rule.splits = append(c.rule.splits, picker)
	return picker
}

// pool returns the index of a pool's name in Rule.Pools.
func (c *compiler) pool(name string) int {
	if i := slices.Index(c.rule.pools, name); i >= 0 {
		return i
	}
	c.rule.pools = append(c.rule.pools, name)
	return len(c.rule.pools) - 1
}
