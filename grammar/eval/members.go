package eval

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"bigpipe/grammar"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

// changeMembers takes the members of a modify out of given and changes the pool's own ones; false when one is not found.
func (e *evaluator) changeMembers(s *grammar.Statement, p, given *pb.Pool) bool {
	members := given.GetMembers()
	given.Members = nil
	ok := true
	find := memberFinder(p, len(members))
	for _, m := range members {
		i := find(m.GetAddress())
		if i < 0 {
			e.memberNotFound(s, p, m)
			ok = false
			continue
		}
		merge(p.Members[i].ProtoReflect(), m.ProtoReflect(), grammar.Members)
		p.Members[i].Meta = m.GetMeta()
	}
	return ok
}

// memberFinder returns a function that finds the place of a member in a pool that does not change meanwhile, -1 if it is not there. It is
// made for so many calls.
func memberFinder(p *pb.Pool, calls int) func(address string) int {
	if calls <= 1 {
		return func(address string) int { return indexMember(p, address) }
	}
	at := make(map[string]int, len(p.GetMembers()))
	for i, m := range slices.Backward(p.GetMembers()) {
		at[m.GetAddress()] = i
	}
	return func(address string) int {
		if i, found := at[address]; found {
			return i
		}
		return -1
	}
}

func indexMember(p *pb.Pool, address string) int {
	return slices.IndexFunc(p.GetMembers(), func(m *pb.Member) bool { return m.GetAddress() == address })
}

// memberAt is where a statement names a member.
func memberAt(s *grammar.Statement, m *pb.Member) at {
	if p := m.GetMeta().GetPosition(); p != nil {
		return at{p, 1}
	}
	return keyAt(s)
}

func (e *evaluator) memberNotFound(s *grammar.Statement, p *pb.Pool, m *pb.Member) {
	e.fault(memberAt(s, m), CodeNotFound, "pool %s: member %s not found", p.GetName(), m.GetAddress())
}

// raiseEpochs gives the members whose text says epoch new the next epoch.
func (e *evaluator) raiseEpochs(s *grammar.Statement, p, old *pb.Pool) {
	if len(s.NewEpoch) == 0 {
		return
	}
	raised := make(map[string]bool, len(s.NewEpoch))
	for _, address := range s.NewEpoch {
		raised[address] = true
	}
	find := memberFinder(old, len(s.NewEpoch))
	for _, m := range p.GetMembers() {
		if !raised[m.GetAddress()] {
			continue
		}
		epoch := uint64(0)
		if i := find(m.GetAddress()); i >= 0 {
			epoch = old.Members[i].GetEpoch()
		}
		m.Epoch = proto.Uint64(epoch + 1)
	}
}

// addMembers carries out statements that follow one another and each add members to one pool.
func (e *evaluator) addMembers(statements []*grammar.Statement) {
	first := statements[0]
	old := e.view.Get(first.Key)
	if old == nil {
		for _, s := range statements {
			e.notFound(s, s.Key)
		}
		return
	}
	o, ok := e.copyOf(first, old)
	if !ok {
		return
	}
	p := o.GetPool()
	there := addressesOf(p)
	for _, s := range statements {
		e.countIgnored(s)
		given := config.Clone(s.Object).GetPool()
		e.raiseEpochs(s, given, nil)
		for _, m := range given.GetMembers() {
			if there[m.GetAddress()] {
				e.fault(memberAt(s, m), CodeExisting, "pool %s: existing member %s", p.GetName(), m.GetAddress())
				continue
			}
			there[m.GetAddress()] = true
			p.Members = append(p.Members, m)
		}
		e.annotate(s, old, o, given.GetMeta())
		e.summarize(s)
	}
	e.put(statements[len(statements)-1], o)
}

// addressesOf is the set of the addresses of a pool's members.
func addressesOf(p *pb.Pool) map[string]bool {
	there := make(map[string]bool, len(p.GetMembers()))
	for _, m := range p.GetMembers() {
		there[m.GetAddress()] = true
	}
	return there
}

// removeMembers removes members from a pool; it may end up without any.
func (e *evaluator) removeMembers(s *grammar.Statement) {
	old := e.view.Get(s.Key)
	if old == nil {
		e.notFound(s, s.Key)
		return
	}
	o, ok := e.copyOf(s, old)
	if !ok {
		return
	}
	p := o.GetPool()
	there := addressesOf(p)
	for _, m := range s.Object.GetPool().GetMembers() {
		if !there[m.GetAddress()] {
			e.memberNotFound(s, p, m)
		}
		delete(there, m.GetAddress())
	}
	p.Members = slices.DeleteFunc(p.Members, func(m *pb.Member) bool { return !there[m.GetAddress()] })
	e.rewrite(s, old, o, nil)
	e.summarize(s)
}
