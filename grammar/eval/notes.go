package eval

import (
	"slices"
	"strings"

	"bigpipe/grammar"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

// CodeKept is a note about what was accepted without an effect.
const CodeKept = "kept"

// Ignored lists the attributes of one kind of object that are accepted, stored and printed, but not in effect.
type Ignored struct {
	// Kind is the object's name in messages: "pool", "virtual server".
	Kind       string
	Attributes []string
	// Position is that of the first statement with one of them.
	Position *pb.Position
}

// countIgnored notes the attributes of a statement that nothing acts on.
func (e *evaluator) countIgnored(s *grammar.Statement) {
	if samePlace(e.looked, s.Position) {
		return // one text, of several objects
	}
	e.looked = s.Position
	names := s.Ignored()
	if len(names) == 0 || s.Faulty {
		return
	}
	kind := grammar.TableOf(s.Kind).Title
	i := slices.IndexFunc(e.ignored, func(g Ignored) bool { return g.Kind == kind })
	if i < 0 {
		i = len(e.ignored)
		e.ignored = append(e.ignored, Ignored{Kind: kind, Position: config.Position(s.Position)})
	}
	for _, name := range names {
		if !slices.Contains(e.ignored[i].Attributes, name) {
			e.ignored[i].Attributes = append(e.ignored[i].Attributes, name)
		}
	}
}

// Notes says what was accepted without an effect, one line a kind: whole statements first, then attributes.
func (o *Outcome) Notes() []*pb.Diagnostic {
	var notes []*pb.Diagnostic
	add := func(at *pb.Position, format string, args ...any) {
		notes = append(notes, &pb.Diagnostic{
			Severity: pb.Severity_SEVERITY_NOTE, Code: CodeKept, Position: at, Message: pb.Message(format, args...),
		})
	}
	for _, k := range o.Kept {
		plural := "statements"
		if k.Count == 1 {
			plural = "statement"
		}
		add(k.Position, "%s: %d %s kept, not in effect", k.Keyword, k.Count, plural)
	}
	for _, g := range o.Ignored {
		add(g.Position, "%s: %s kept, not in effect", g.Kind, strings.Join(g.Attributes, ", "))
	}
	return notes
}
