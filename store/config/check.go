package config

import (
	"maps"
	"slices"
	"strings"
	"unicode"

	pb "bigpipe/proto/bigpipe/v1"
)

// Codes of the diagnostics of this package. They are stable; a warning's code is its rule, "W-1".
const (
	// CodeUndefined is a reference to something that is not defined.
	CodeUndefined = "undefined"
	// CodeInUse is the deletion of something that others refer to.
	CodeInUse = "in_use"
	// CodeValue is a value that is out of range or of the wrong form.
	CodeValue = "value"
	// CodeDuplicate is the same thing given twice.
	CodeDuplicate = "duplicate"
	// CodeConflict is a pair of attributes or objects that do not go together.
	CodeConflict = "conflict"
	// CodeMissing is an attribute that is needed and not given.
	CodeMissing = "missing"
	// CodeLimit is too much of something.
	CodeLimit = "limit"
)

// maxCompared is how many names are compared with undefined ones, so that a large configuration has no suggestions for all of many
// faults.
const maxCompared = 200_000

// MaxObjects is how many objects a configuration may hold.
const MaxObjects = 65536

// MaxLimit is the highest connection limit that can be set.
const MaxLimit = 65535

// Finding is a diagnostic with the key of the object that it is about.
type Finding struct {
	Key string
	// Name is what an undefined reference names, "" otherwise. It stands behind the diagnostic's position.
	Name string
	*pb.Diagnostic
}

// Validate returns the faults and warnings of a configuration (rules W-1 to W-11). With changed, the keys that were put or
// deleted, it visits those and what refers to them; nil means everything. A fault's position is that of the attribute in the
// text that set it, as far as the object's Meta knows it; every message names its object.
func Validate(v View, changed []string) []*pb.Diagnostic {
	var list []*pb.Diagnostic
	for _, f := range Check(v, changed) {
		list = append(list, f.Diagnostic)
	}
	return list
}

// Check is Validate for those who need to know which object a diagnostic is about.
func Check(v View, changed []string) []Finding {
	c := &checker{
		view: v, own: map[string]bool{}, related: map[string]bool{}, deleted: map[string]bool{},
		reached: map[string][]*pb.Pool{}, lacking: map[string]string{},
	}
	if n := v.Len(""); n > MaxObjects {
		c.fault("", nil, CodeLimit, "%d objects are too many: the most is %d", n, MaxObjects)
	}
	if changed == nil {
		v.Range("", func(o *pb.Object) bool { c.own[o.Key()] = true; return true })
		c.related = c.own
		c.all = true
	} else {
		c.visit(changed)
	}
	for _, key := range slices.Sorted(maps.Keys(c.own)) {
		c.checkOwn(v.Get(key))
	}
	for _, key := range slices.Sorted(maps.Keys(c.related)) {
		c.checkRelations(key, v.Get(key))
	}
	c.warnScopes()
	return c.findings
}

// checker gathers findings.
type checker struct {
	view View
	// own holds the keys whose attributes are checked, related those whose relations to others are.
	own, related map[string]bool
	// deleted holds the keys that changed and are gone.
	deleted  map[string]bool
	all      bool
	findings []Finding
	// suggested counts the suggestions made, compared the names among which they were searched for.
	suggested, compared int
	// reached holds the pools that virtual servers reach, lacking the nodes that one of two lacks, by what they use.
	reached map[string][]*pb.Pool
	lacking map[string]string
}

// useKey is the same for virtual servers that use the same rule or the same pools.
func useKey(vs *pb.VirtualServer) string {
	pools := vs.GetPools()
	if len(pools) == 1 && vs.GetRule() == "" {
		return pools[0].GetPool()
	}
	var b strings.Builder
	for _, p := range pools {
		b.WriteString(p.GetPool() + " ")
	}
	return b.String() + "rule " + vs.GetRule()
}

// reachable is the function of that name, asked once for virtual servers that use the same.
func (c *checker) reachable(vs *pb.VirtualServer) []*pb.Pool {
	key := useKey(vs)
	pools, known := c.reached[key]
	if !known {
		pools = reachable(c.view, vs)
		c.reached[key] = pools
	}
	return pools
}

func (c *checker) isPersistent(vs *pb.VirtualServer) bool {
	return slices.ContainsFunc(c.reachable(vs), Scoped)
}

// visit collects what changed, what refers to it, and what a changed virtual server or rule reaches.
func (c *checker) visit(changed []string) {
	for _, key := range changed {
		c.related[key] = true
		if c.view.Get(key) != nil {
			c.own[key] = true
		} else {
			c.deleted[key] = true
		}
		c.view.Referrers(key, func(from string) bool {
			c.related[from] = true
			if kind, _ := pb.SplitKey(from); kind == "rule" {
				c.view.Referrers(from, func(user string) bool { c.related[user] = true; return true })
			}
			return true
		})
		if vs := c.view.Get(key).GetVirtual(); vs != nil && c.reached[useKey(vs)] == nil {
			for _, p := range c.reachable(vs) {
				c.related["pool/"+p.GetName()] = true
			}
		}
		if r := c.view.Get(key).GetRule(); r != nil {
			for _, name := range RulePools(r) {
				c.related["pool/"+name] = true
			}
		}
	}
	for _, key := range slices.Sorted(maps.Keys(c.deleted)) {
		c.checkInUse(key)
	}
}

// checkInUse refuses the deletion of what something that did not change still needs.
func (c *checker) checkInUse(key string) {
	kind, name := pb.SplitKey(key)
	if kind == "node" || kind == "virtual_address" || kind == "service" || c.builtIn(kind, name) {
		return
	}
	var users []string
	c.view.Referrers(key, func(from string) bool {
		if user, _ := pb.SplitKey(from); !c.own[from] && user != "proxy" {
			users = append(users, Title(from))
		}
		return true
	})
	if len(users) > 0 {
		c.fault(key, nil, CodeInUse, "%s is in use by %s", Title(key), some(users, 3))
	}
}

// globalChanged reports whether the variables of the unit are among what changed.
func (c *checker) globalChanged() bool { return c.all || c.related["global"] }

// spot is a place in the text of an object; nil where it is not known.
type spot struct {
	position *pb.Position
	length   uint32
}

// attribute returns where the first of the named attributes that the object's text gives stands, else where the object does.
func attribute(meta *pb.Meta, names ...string) *spot {
	if meta.GetPosition() == nil {
		return nil
	}
	for _, name := range names {
		for _, a := range meta.GetAttributes() {
			if a.GetAttribute() == name {
				at := &pb.Position{File: meta.GetPosition().GetFile(), Line: a.GetLine(), Column: a.GetColumn()}
				return &spot{at, max(1, a.GetLength())}
			}
		}
	}
	return &spot{meta.GetPosition(), 1}
}

func (s *spot) related(format string, args ...any) []*pb.RelatedPosition {
	if s == nil {
		return nil
	}
	return []*pb.RelatedPosition{{Position: s.position, Message: pb.Message(format, args...)}}
}

func (c *checker) add(severity pb.Severity, key string, at *spot, code, format string, args ...any) *pb.Diagnostic {
	d := &pb.Diagnostic{Severity: severity, Code: code, Message: pb.Message(format, args...)}
	if at != nil {
		d.Position, d.Length = Position(at.position), at.length
	}
	c.findings = append(c.findings, Finding{Key: key, Diagnostic: d})
	return d
}

// Position returns a copy of a position.
func Position(p *pb.Position) *pb.Position {
	if p == nil {
		return nil
	}
	return &pb.Position{File: p.GetFile(), Line: p.GetLine(), Column: p.GetColumn()}
}

func (c *checker) fault(key string, at *spot, code, format string, args ...any) *pb.Diagnostic {
	return c.add(pb.Severity_SEVERITY_ERROR, key, at, code, format, args...)
}

func (c *checker) warn(key string, at *spot, code, format string, args ...any) *pb.Diagnostic {
	return c.add(pb.Severity_SEVERITY_WARNING, key, at, code, format, args...)
}

// Title names the object of a key as messages do: "pool web", "virtual server 10.0.0.1:80", "global".
func Title(key string) string {
	kind, name := pb.SplitKey(key)
	if kind == "virtual" {
		kind = "virtual server"
	}
	kind = strings.ReplaceAll(kind, "_", " ")
	switch kind {
	case "service":
		kind = "port"
	case "monitor use":
		kind = "monitor of node"
	}
	if name == "" {
		return kind
	}
	return kind + " " + name
}

// referKept is refer for an object that nothing acts on: what it names may be a word of the old unit that is not known here.
func (c *checker) referKept(from string, at *spot, to string) {
	before := len(c.findings)
	c.refer(from, at, to)
	for _, f := range c.findings[before:] {
		f.Severity = pb.Severity_SEVERITY_WARNING
	}
}

// refer notes a fault unless the key that an object refers to is defined.
func (c *checker) refer(from string, at *spot, to string) {
	kind, name := pb.SplitKey(to)
	if name == "" || c.view.Get(to) != nil || c.builtIn(kind, name) {
		return
	}
	if c.deleted[to] && !c.own[from] {
		return // checkInUse says so
	}
	d := c.fault(from, at, CodeUndefined, "%s: %s %q not found", Title(from), kindTitle(kind), name)
	c.findings[len(c.findings)-1].Name = name
	if c.suggested < 50 && c.compared < maxCompared {
		c.suggested++
		c.compared += c.view.Len(kind)
		d.Suggestion = Nearest(c.view, kind, name)
	}
}

func kindTitle(kind string) string { return Title(kind + "/") }

// templates are the names of the monitors that exist without a definition.
var templates = pb.MonitorTemplateNames()

// IsMonitorTemplate reports whether a monitor exists without a definition.
func IsMonitorTemplate(name string) bool { return slices.Contains(templates, name) }

// builtIn reports whether something exists without an object of its own: a monitor template, or a class or monitor whose
// statement is kept as text.
func (c *checker) builtIn(kind, name string) bool {
	switch kind {
	case "monitor":
		if IsMonitorTemplate(name) {
			return true
		}
	case "class":
	default:
		return false
	}
	return len(KeptAs(c.view, kind, name)) > 0
}

// KeptAs returns the statements that are kept as text instead of as an object of a kind with a name: class images { ... } as
// "class", "images"; node 10.1.1.1 monitor use http as "monitor_use", "10.1.1.1". In the order of keys.
func KeptAs(v View, kind, name string) []*pb.Object {
	var list []*pb.Object
	v.Referrers(keptAs+kind+"/"+name, func(from string) bool {
		list = append(list, v.Get(from))
		return true
	})
	return list
}

// keptAs begins the keys under which kept statements are found by what they define.
const keptAs = "as/"

// keptReference is the key under which a kept statement is found; "" if it defines nothing.
func keptReference(k *pb.Kept) string {
	rest := k.GetText()
	word := func() string {
		rest = strings.TrimLeftFunc(rest, unicode.IsSpace)
		end := strings.IndexFunc(rest, unicode.IsSpace)
		if end < 0 {
			end = len(rest)
		}
		w := rest[:end]
		rest = rest[end:]
		return w
	}
	word()
	kind, name := k.GetKeyword(), strings.TrimRight(word(), "{")
	if kind == "node" && word() == "monitor" {
		kind = "monitor_use"
	}
	if name == "" {
		return ""
	}
	return keptAs + kind + "/" + name
}

// Nearest returns the name of a defined object of a kind that was probably meant; "" if none is close. It looks at all of
// them.
func Nearest(v View, kind, name string) string {
	best, least := "", min(3, len(name)/3+1)+1
	v.Range(kind, func(o *pb.Object) bool {
		_, candidate := pb.SplitKey(o.Key())
		if d := pb.EditDistance(name, candidate, least-1); d < least {
			best, least = candidate, d
		}
		return true
	})
	return best
}
