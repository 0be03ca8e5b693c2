package eval

import (
	"cmp"
	"slices"

	"bigpipe/grammar"
	pb "bigpipe/proto/bigpipe/v1"
)

// Join puts what parsing a text and evaluating its statements found into one list, in the order of the text; what has no place
// comes last. A place has one fault, the first; of all faults 50 are shown, and a note counts the others. Where the parser found
// faults, the warnings of the evaluation are left out: they are about a configuration that was read in part. A diagnostic
// without its line of the text takes it from another one about that line.
func Join(parsed, evaluated []*pb.Diagnostic) []*pb.Diagnostic {
	j := joiner{taken: map[place]bool{}, lines: map[place]string{}, more: map[string]int{}}
	for _, d := range parsed {
		j.add(d)
	}
	partly := j.faults > 0
	for _, d := range evaluated {
		if !partly || isFault(d) {
			j.add(d)
		}
	}
	return j.result()
}

// place is where a diagnostic points to; the zero value is nowhere.
type place struct {
	file         string
	line, column uint32
}

func placeOf(d *pb.Diagnostic) place {
	p := d.GetPosition()
	return place{p.GetFile(), p.GetLine(), p.GetColumn()}
}

// joiner gathers the diagnostics of several lists.
type joiner struct {
	list   []*pb.Diagnostic
	faults int
	// taken holds the places that have a fault.
	taken map[place]bool
	// lines holds the lines of the text that are known.
	lines map[place]string
	// more counts what is not shown, by what it is; kinds keeps their order.
	more  map[string]int
	kinds []string
}

func isFault(d *pb.Diagnostic) bool {
	if n, what := grammar.NotShown(d); n > 0 {
		return what == grammar.Faults
	}
	return d.GetSeverity() == pb.Severity_SEVERITY_ERROR
}

func (j *joiner) add(d *pb.Diagnostic) {
	if n, what := grammar.NotShown(d); n > 0 {
		j.hide(n, what)
		return
	}
	at := placeOf(d)
	if isFault(d) {
		if at != (place{}) && j.taken[at] {
			return
		}
		j.taken[at] = true
		j.faults++
	}
	at.column = 0
	if d.GetSource() != "" && j.lines[at] == "" {
		j.lines[at] = d.GetSource()
	}
	j.list = append(j.list, d)
}

func (j *joiner) hide(n int, what string) {
	if j.more[what] == 0 {
		j.kinds = append(j.kinds, what)
	}
	j.more[what] += n
}

func (j *joiner) result() []*pb.Diagnostic {
	slices.SortStableFunc(j.list, func(a, b *pb.Diagnostic) int {
		p, q := placeOf(a), placeOf(b)
		return cmp.Or(cmp.Compare(p.line-1, q.line-1), cmp.Compare(p.column, q.column)) // line 0 comes last
	})
	shown := 0
	list := slices.DeleteFunc(j.list, func(d *pb.Diagnostic) bool {
		if !isFault(d) {
			return false
		}
		shown++
		return shown > maxShown
	})
	if shown > maxShown {
		j.hide(shown-maxShown, grammar.Faults)
	}
	for _, d := range list {
		at := placeOf(d)
		at.column = 0
		if d.Source == "" && at.line > 0 {
			d.Source = j.lines[at]
		}
	}
	for _, what := range j.kinds {
		list = append(list, grammar.More(j.more[what], what))
	}
	return list
}
