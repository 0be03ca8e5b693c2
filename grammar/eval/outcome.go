// Package eval says what statements mean: from a configuration and statements it makes changes, diagnostics and the queries
// that are to be answered. It is pure: it changes nothing and asks nobody, except for the addresses of host names.
package eval

import (
	"net/netip"

	"bigpipe/grammar"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

// Mode says what the statements are.
type Mode int

const (
	// ModeCommand: commands; together they are one change.
	ModeCommand Mode = iota
	// ModeLoad: a file that replaces the configuration.
	ModeLoad
	// ModeMerge: a file whose statements are added to the configuration.
	ModeMerge
)

// Options are what Evaluate needs besides configuration and statements.
type Options struct {
	Mode Mode
	// File names the file of a load or merge in the summary; "": that of the first statement.
	File string
	// Resolve returns the address of a host name. It is asked once for each name, for several at the same
	// time. Nil: no host is known.
	Resolve func(host string) (netip.Addr, error)
	// Files are the contents of the files that the statements name, by name: what classes hold. Unreadable says why there are none
	// for some names.
	Files      map[string][]byte
	Unreadable map[string]string
	// PortPersist holds the volatile persistence timeouts of ports that are in force, in seconds (rule B-19). It is not changed.
	PortPersist map[uint32]uint32
}

// Outcome is what statements mean. With an error among the diagnostics it holds nothing else but the exit status: all of the
// statements count, or none.
type Outcome struct {
	// Changes lead from the base to the new configuration, in the order of keys; those that differ in Meta alone are among them.
	Changes []config.Change
	// View is the configuration with the changes made; the base when there is an error.
	View config.View
	// Diagnostics are faults and warnings, in the order of the text.
	Diagnostics []*pb.Diagnostic
	// Operations are the queries and the commands that act on running traffic, in the order of the text.
	Operations []Operation
	// PortPersist is what Options.PortPersist becomes. PortPersistChanged is set when it is another.
	PortPersist        map[uint32]uint32
	PortPersistChanged bool
	// ClearSticky names the pools whose sticky records are to be dropped once the changes are in effect (rule B-22).
	ClearSticky []string
	// Reset is set when the configuration was reset by a command: the counters are to be cleared too.
	Reset bool
	// Kept counts the statements that are kept, not in effect, by their first word and in the order of the text.
	Kept []Kept
	// Ignored lists the attributes that nothing acts on of statements that are in effect otherwise, by the kind of object.
	Ignored []Ignored
	// Summary says in a few words what was done, for the revision: "pool web modify", "load bigip.conf". "" when nothing was.
	Summary string
	// Exit is the status that a command ends with: 0 done, 1 refused because of the running state, 2 faulty text.
	Exit int
}

// Kept counts statements that are kept, not in effect.
type Kept struct {
	Keyword string
	Count   int
	// Position is that of the first.
	Position *pb.Position
}

// Operation is a query, or a command that acts on running traffic, with all its names checked and its hosts resolved.
type Operation struct {
	Action grammar.Action
	Kind   grammar.Kind
	// Key names one object; "" all of Kind.
	Key   string
	Words []string
	// Seconds is the revision of a rollback.
	Seconds     uint64
	Filter      *pb.RecordFilter
	Explain     *pb.ExplainRequest
	Connections *pb.ListConnectionsRequest
	Position    *pb.Position
}

// Codes of the diagnostics of this package; they are stable. Those of packages grammar and config come too.
const (
	// CodeNotFound is a command about something that does not exist.
	CodeNotFound = "not_found"
	// CodeExisting is the creation of something that exists.
	CodeExisting = "existing"
	// CodeRefused is a command that does not fit the state of what it names.
	CodeRefused = "refused"
	// CodeEmpty is a load that would leave nothing of the configuration.
	CodeEmpty = "empty"
	// CodeQuery is a query that was once answered and now names another (rule B-20).
	CodeQuery = "query"
	// CodeUnknownHost is a host name without an address.
	CodeUnknownHost = "unknown_host"
	// CodeNotInFile is a command that is no statement of a file.
	CodeNotInFile = "not_in_file"
)

// runningState holds the codes that end a command with 1 instead of 2.
var runningState = map[string]bool{CodeNotFound: true, CodeExisting: true, CodeRefused: true, config.CodeInUse: true}

// exitOf returns the exit status that diagnostics ask for.
func exitOf(mode Mode, ds []*pb.Diagnostic) int {
	exit := 0
	for _, d := range ds {
		switch {
		case d.GetSeverity() != pb.Severity_SEVERITY_ERROR:
		case mode == ModeCommand && runningState[d.GetCode()]:
			exit = max(exit, 1)
		default:
			return 2
		}
	}
	return exit
}

// at is a place in the text.
type at struct {
	position *pb.Position
	length   uint32
}

// keyAt is where a statement names its object, or where it begins.
func keyAt(s *grammar.Statement) at {
	if s.KeyPosition != nil {
		return at{s.KeyPosition, max(1, s.KeyLength)}
	}
	return at{s.Position, 1}
}

// fault notes an error.
func (e *evaluator) fault(where at, code, format string, args ...any) *pb.Diagnostic {
	d := &pb.Diagnostic{
		Severity: pb.Severity_SEVERITY_ERROR, Code: code, Message: pb.Message(format, args...),
		Position: config.Position(where.position), Length: where.length,
	}
	e.diagnostics = append(e.diagnostics, d)
	return d
}

// notFound notes that the object of a command does not exist.
func (e *evaluator) notFound(s *grammar.Statement, key string) {
	kind, name := pb.SplitKey(key)
	d := e.fault(keyAt(s), CodeNotFound, "%s not found", config.Title(key))
	switch kind {
	case "pool", "rule", "class", "monitor":
		d.Suggestion = config.Nearest(e.view, kind, name)
	}
}
