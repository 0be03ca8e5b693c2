package eval

import (
	"strings"

	"bigpipe/grammar"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

// operation notes a query or an operational command. It is carried out when all changes are made.
func (e *evaluator) operation(s *grammar.Statement) {
	e.asked = append(e.asked, s)
	e.operations = append(e.operations, Operation{
		Action: s.Action, Kind: s.Kind, Key: s.Key, Words: s.Words, Seconds: s.Seconds,
		Filter: s.Filter, Explain: s.Explain, Connections: s.Connections, Position: s.Position,
	})
}

// checkOperations wants everything to exist that the operations name.
func (e *evaluator) checkOperations() {
	for _, s := range e.asked {
		for _, key := range namedBy(s) {
			if !e.known(key) {
				e.notFound(s, key)
				break
			}
		}
	}
}

// namedBy lists the keys of what must exist for an operation. Records and connections may be left of what exists no longer:
// only their pool is looked for.
func namedBy(s *grammar.Statement) []string {
	var keys []string
	if s.Key != "" {
		keys = append(keys, s.Key)
	}
	pool := func(name string) {
		if name != "" && s.Key != "pool/"+name {
			keys = append(keys, "pool/"+name)
		}
	}
	pool(s.Filter.GetPool())
	pool(s.Explain.GetPool())
	if v := s.Explain.GetVirtual(); v != "" {
		keys = append(keys, "virtual/"+v)
	}
	if s.Action == grammar.ActionPersistForecast && len(s.Words) > 0 && s.Key != "node/"+s.Words[0] {
		keys = append(keys, "node/"+s.Words[0])
	}
	return keys
}

// known reports whether something can be shown.
func (e *evaluator) known(key string) bool {
	switch kind, name := pb.SplitKey(key); kind {
	case "node", "virtual_address":
		return e.exists(key)
	case "service", "global":
		return true
	case "monitor_use":
		if !strings.HasPrefix(name, "*:") && e.exists(key) { // what checks it may be said of its port, or of all nodes
			names, _ := config.MonitorsOf(e.view, name)
			return len(names) > 0
		}
	case "monitor":
		if config.IsMonitorTemplate(name) {
			return true
		}
	}
	return e.view.Get(key) != nil || len(e.keptAs(key)) > 0
}
