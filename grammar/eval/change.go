package eval

import (
	"slices"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"bigpipe/grammar"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

// define creates an object or replaces it whole.
func (e *evaluator) define(s *grammar.Statement) {
	o := config.Clone(s.Object)
	_, name := pb.SplitKey(s.Key)
	if s.Kind == grammar.KindMonitor && e.refuseExisting(s, name) {
		return
	}
	lenient := isLenient(s.Kind)
	if t := e.touched[s.Key]; lenient && e.options.Mode != ModeCommand && t != nil && t.first != nil && t.first.Action != grammar.ActionDefine {
		e.change(s)
		return
	}
	if lenient && e.options.Mode != ModeLoad {
		e.dropKept(s, string(s.Kind), name)
	}
	// Two whole definitions are found by grammar.Duplicates; here one of them came about in another way.
	if t := e.touched[s.Key]; e.options.Mode != ModeCommand && t != nil && t.first != nil &&
		(t.first.Action != grammar.ActionDefine || t.first.Key != s.Key) {
		e.duplicate(s, t.first, s.Key)
		return
	}
	if p := o.GetPool(); p != nil {
		old := e.view.Get(o.Key()).GetPool()
		e.raiseEpochs(s, p, old)
		if s.StickyDisable && old.GetPersistMode() == pb.PersistMode_PERSIST_MODE_STICKY {
			e.sticky[p.GetName()] = true
		}
	}
	if s.NodeList != nil {
		e.useNodeList(s, o.GetVirtual())
	}
	e.replace(s, o)
	e.summarize(s)
}

// isLenient tells whether statements of a kind may say less than the whole: those of the old unit do.
func isLenient(kind grammar.Kind) bool {
	t := grammar.TableOf(kind)
	return t != nil && t.Lenient
}

// duplicate notes that a file defines something twice.
func (e *evaluator) duplicate(s, first *grammar.Statement, key string) {
	kind, name := pb.SplitKey(key)
	d := e.fault(keyAt(s), grammar.CodeDuplicate, "existing %s %q: defined on line %d and again on line %d",
		kind, name, first.Position.GetLine(), s.Position.GetLine())
	d.Related = []*pb.RelatedPosition{{Position: config.Position(first.Position), Message: "first defined here"}}
}

// replace stores an object that was given as a whole: it keeps its rank, and nothing else of what it was.
func (e *evaluator) replace(s *grammar.Statement, o *pb.Object) {
	key := o.Key()
	kind, _ := pb.SplitKey(key)
	meta := metaOf(o)
	if old := e.view.Get(key); old != nil {
		meta.Order = old.ObjectMeta().GetOrder()
	} else {
		meta.Order = e.view.LastOrder(kind) + 1
	}
	e.put(s, o)
	t := e.touched[key]
	t.replaced = true
	if t.first == nil {
		t.first = s
	}
	clear(t.attributes)
}

// change changes what a statement names and clears; with ActionSet it creates the object if there is none.
func (e *evaluator) change(s *grammar.Statement) {
	key := s.Key
	old := e.view.Get(key)
	if old == nil && !e.mayCreate(s) {
		e.notFound(s, key)
		return
	}
	if s.StickyDisable && old != nil && !e.endSticky(s, old.GetPool()) {
		return
	}
	if old != nil && !e.hasRoom(s, old) {
		return
	}
	o := emptyLike(s.Object)
	if old != nil {
		var ok bool
		if o, ok = e.copyOf(s, old); !ok {
			return
		}
	}
	source := config.Clone(s.Object)
	if p := source.GetPool(); p != nil {
		e.raiseEpochs(s, p, old.GetPool())
		if old != nil && !e.changeMembers(s, o.GetPool(), p) {
			return
		}
	}
	if v := source.GetVirtual(); v != nil {
		if s.NodeList != nil {
			e.useNodeList(s, v)
		}
		e.changeUse(s, o.GetVirtual(), v)
	}
	merge(o.Message(), source.Message(), grammar.TableOf(s.Kind))
	for _, field := range s.Cleared {
		if fd := o.Message().Descriptor().Fields().ByName(protoreflect.Name(field)); fd != nil {
			o.Message().Clear(fd)
		}
	}
	e.rewrite(s, old, o, source.ObjectMeta())
	if t := e.touched[key]; t.first == nil {
		t.first = s
	}
	e.summarize(s)
}

// mayCreate reports whether a statement may create its object. A virtual server needs something to use; a node exists
// because it is a member, a virtual address because it has a virtual server. In a file these may follow later.
func (e *evaluator) mayCreate(s *grammar.Statement) bool {
	if s.Action == grammar.ActionDefine {
		return true
	}
	if s.Action != grammar.ActionSet {
		return false
	}
	switch s.Kind {
	case grammar.KindMonitor:
		_, name := pb.SplitKey(s.Key)
		return e.options.Mode != ModeCommand || s.Object.GetMonitor().GetUse() != "" || config.IsMonitorTemplate(name)
	case grammar.KindVirtual:
		v := s.Object.GetVirtual()
		return len(v.GetPools()) > 0 || v.GetRule() != "" || v.GetForward() || s.NodeList != nil
	case grammar.KindNode, grammar.KindVirtualAddress, grammar.KindMonitorUse:
		return e.options.Mode != ModeCommand || e.exists(s.Key)
	}
	return true
}

// rewrite stores an object of which a statement changed a part. Its Meta then says where those parts stand.
func (e *evaluator) rewrite(s *grammar.Statement, old, o *pb.Object, given *pb.Meta) {
	e.annotate(s, old, o, given)
	e.put(s, o)
}

// annotate gives an object of which a statement changed a part the places of those parts.
func (e *evaluator) annotate(s *grammar.Statement, old, o *pb.Object, given *pb.Meta) {
	key := o.Key()
	kind, _ := pb.SplitKey(key)
	meta := metaOf(o)
	if old == nil {
		meta.Order = e.view.LastOrder(kind) + 1
	}
	if e.touched[key] == nil {
		meta.Position, meta.Attributes = config.Position(given.GetPosition()), nil
		if e.options.Mode == ModeCommand || meta.Position == nil {
			meta.Position = config.Position(keyAt(s).position)
		}
	}
	meta.Comments = append(meta.Comments, given.GetComments()...)
	for _, a := range given.GetAttributes() {
		meta.Attributes = slices.DeleteFunc(meta.Attributes, func(b *pb.AttributePosition) bool {
			return b.GetAttribute() == a.GetAttribute()
		})
		meta.Attributes = append(meta.Attributes, a)
	}
	t := e.touch(s, key)
	if t.attributes == nil && len(given.GetAttributes()) > 0 {
		t.attributes = make(map[string]bool, len(given.GetAttributes()))
	}
	for _, a := range given.GetAttributes() {
		t.attributes[a.GetAttribute()] = true
	}
}

// changeUse makes room for what a virtual server is to use instead; in a file it may be said only once.
func (e *evaluator) changeUse(s *grammar.Statement, v, given *pb.VirtualServer) {
	if len(given.GetPools()) == 0 && given.GetRule() == "" && !given.GetForward() {
		return
	}
	uses := len(v.GetPools()) > 0 || v.GetRule() != "" || v.GetForward()
	if t := e.touched[s.Key]; e.options.Mode != ModeCommand && uses && t != nil && t.first != nil {
		e.duplicate(s, t.first, s.Key)
		return
	}
	v.Pools, v.Rule, v.Forward = nil, nil, nil
}

// remove deletes an object. With a virtual server goes the pool that was made from its node list, unless something else uses
// it.
func (e *evaluator) remove(s *grammar.Statement) {
	old := e.view.Get(s.Key)
	kept := e.keptAs(s.Key)
	if old == nil && len(kept) == 0 {
		e.notFound(s, s.Key)
		return
	}
	for _, o := range kept {
		e.delete(s, o.Key())
	}
	e.delete(s, s.Key)
	e.summarize(s)
	vs := old.GetVirtual()
	if vs == nil {
		return
	}
	name := nodeListPool(vs.GetAddress())
	direct, _ := config.PoolsOf(e.view, vs)
	if !slices.Contains(direct, name) || e.view.Get("pool/"+name) == nil {
		return
	}
	used := false
	e.view.Referrers("pool/"+name, func(string) bool { used = true; return false })
	if !used {
		e.delete(s, "pool/"+name)
	}
}

// keptAs returns the statements that are kept as text instead of as the object of a key.
func (e *evaluator) keptAs(key string) []*pb.Object {
	kind, name := pb.SplitKey(key)
	return config.KeptAs(e.view, kind, name)
}

// metaOf returns an object's Meta, which it gets if it has none.
func metaOf(o *pb.Object) *pb.Meta {
	m := o.Message()
	meta, _ := m.Mutable(m.Descriptor().Fields().ByName("meta")).Message().Interface().(*pb.Meta)
	return meta
}

// emptyLike returns an object with the kind and the name of another, and nothing else.
func emptyLike(o *pb.Object) *pb.Object {
	empty := &pb.Object{}
	r, m := o.ProtoReflect(), o.Message()
	n := m.New()
	m.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if !fd.HasPresence() && !fd.IsList() {
			n.Set(fd, v)
		}
		return true
	})
	empty.ProtoReflect().Set(r.WhichOneof(r.Descriptor().Oneofs().Get(0)), protoreflect.ValueOfMessage(n))
	return empty
}

// merge sets in dst what is set in src; their Metas are left alone. Lists of named things are merged by name, elements added to
// the lists that the table says so of, other lists replaced. src gives its parts away.
func merge(dst, src protoreflect.Message, t *grammar.Table) {
	src.Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case fd.Name() == "meta":
		case fd.IsList() && adds(t, fd):
			addElements(dst.Mutable(fd).List(), v.List())
		case fd.IsList() && fd.Kind() == protoreflect.MessageKind && listKey(fd.Message()) != nil:
			mergeList(dst.Mutable(fd).List(), v.List(), listKey(fd.Message()))
		default:
			dst.Set(fd, v)
		}
		return true
	})
}

// adds tells whether elements of a field are added to those that are there. The origins of a source translation are no attribute.
func adds(t *grammar.Table, fd protoreflect.FieldDescriptor) bool {
	if t == nil {
		return false
	}
	a := t.Find(string(fd.Name()))
	return a != nil && a.Adds || t.Kind == grammar.KindSnat && fd.Name() == "origins"
}

// maxElements is how long a list may become by statements that each add to it: every one of them copies the object.
const maxElements = 4096

// hasRoom tells whether a statement may add to the lists of an object; what it gives as a whole may be longer.
func (e *evaluator) hasRoom(s *grammar.Statement, old *pb.Object) bool {
	ok := true
	s.Object.Message().Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		grows := fd.IsList() && (adds(grammar.TableOf(s.Kind), fd) || fd.Kind() == protoreflect.MessageKind && listKey(fd.Message()) != nil)
		if grows && old.Message().Get(fd).List().Len()+v.List().Len() > maxElements {
			e.fault(keyAt(s), config.CodeLimit, "%s: %s would have more than %d elements", config.Title(s.Key), fd.Name(), maxElements)
			ok = false
		}
		return ok
	})
	return ok
}

const (
	// maxCopied bounds the work of a text that changes long objects again and again, each time by a copy: in elements of lists.
	maxCopied = 2_000_000
	// freeElements is how long the lists of an object may be without being counted.
	freeElements = 1000
	// memberCost is what a member counts.
	memberCost = 32
)

// copyOf returns a copy of an object that a statement is to change; false, and a fault is noted, when the statements of this text have
// copied too much.
func (e *evaluator) copyOf(s *grammar.Statement, old *pb.Object) (*pb.Object, bool) {
	size := memberCost * len(old.GetPool().GetMembers())
	if size == 0 {
		old.Message().Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
			if fd.IsList() {
				size += v.List().Len()
			}
			return true
		})
	}
	if size > freeElements {
		e.copied += size
	}
	if e.copied > maxCopied {
		e.fault(keyAt(s), config.CodeLimit, "%s is too long to be changed by so many statements: say more in each of them", config.Title(old.Key()))
		return nil, false
	}
	return config.Clone(old), true
}

// addElements adds the texts of src that dst lacks.
func addElements(dst, src protoreflect.List) {
	if src.Len() == 1 {
		if indexElement(dst, src.Get(0).String()) < 0 {
			dst.Append(src.Get(0))
		}
		return
	}
	there := make(map[string]bool, dst.Len()+src.Len())
	for i := range dst.Len() {
		there[dst.Get(i).String()] = true
	}
	for i := range src.Len() {
		if text := src.Get(i).String(); !there[text] {
			there[text] = true
			dst.Append(src.Get(i))
		}
	}
}

func indexElement(list protoreflect.List, text string) int {
	for i := range list.Len() {
		if list.Get(i).String() == text {
			return i
		}
	}
	return -1
}

// removeElements takes elements out of the lists of an object: vlan v interfaces delete 1.1.
func (e *evaluator) removeElements(s *grammar.Statement) {
	old := e.view.Get(s.Key)
	if old == nil {
		e.notFound(s, s.Key)
		return
	}
	o, ok := e.copyOf(s, old)
	if !ok {
		return
	}
	s.Object.Message().Range(func(fd protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if !fd.IsList() {
			return true
		}
		list := o.Message().Mutable(fd).List()
		for i := range v.List().Len() {
			ok = e.removeElement(s, list, v.List().Get(i)) && ok
		}
		return true
	})
	if ok {
		e.rewrite(s, old, o, s.Object.ObjectMeta())
		e.summarize(s)
	}
}

func (e *evaluator) removeElement(s *grammar.Statement, list protoreflect.List, v protoreflect.Value) bool {
	i := indexElement(list, v.String())
	if i < 0 {
		e.fault(keyAt(s), CodeNotFound, "%s: %s not found", config.Title(s.Key), v.String())
		return false
	}
	for ; i+1 < list.Len(); i++ {
		list.Set(i, list.Get(i+1))
	}
	list.Truncate(list.Len() - 1)
	return true
}

// toggle switches a variable of the unit over: maint.
func (e *evaluator) toggle(s *grammar.Statement) {
	on := config.Globals(e.view).GetMaint()
	given := &pb.Object{Kind: &pb.Object_Global{Global: &pb.Global{Meta: &pb.Meta{Position: s.Position}, Maint: proto.Bool(!on)}}}
	set := *s
	set.Action, set.Object = grammar.ActionSet, given
	e.change(&set)
}

// listKey returns the field that names the elements of a list, nil for a list that is replaced as a whole.
func listKey(d protoreflect.MessageDescriptor) protoreflect.FieldDescriptor {
	switch d.Name() {
	case "MapProxy":
		return d.Fields().ByName("network")
	case "CookieKey", "Sysctl":
		return d.Fields().ByName("name")
	}
	return nil
}

func mergeList(dst, src protoreflect.List, key protoreflect.FieldDescriptor) {
	at := make(map[string]int, dst.Len()+src.Len())
	for i := range dst.Len() {
		at[dst.Get(i).Message().Get(key).String()] = i
	}
	for i := range src.Len() {
		element := src.Get(i)
		name := element.Message().Get(key).String()
		if j, found := at[name]; found {
			dst.Set(j, element)
			continue
		}
		at[name] = dst.Len()
		dst.Append(element)
	}
}
