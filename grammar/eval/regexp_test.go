package eval

import (
	"strings"
	"testing"

	"bigpipe/grammar"
	"bigpipe/store/config"
)

// TestRegularExpressions: an expression that does not compile is a fault of the file, with its place; all of them are reported.
func TestRegularExpressions(t *testing.T) {
	const text = `pool a { member 10.1.1.1:80 }
rule r {
   if ( http_uri matches_regex "^/(a|b" or not http_host matches_regex "[" ) { use ( a ) }
   else if ( http_uri matches_regex "^/ok$" ) { use ( a ) }
}
`
	statements, faults := grammar.Parse("f", []byte(text))
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	out := Evaluate(config.NewTree(), statements, Options{Mode: ModeLoad})
	if len(out.Diagnostics) != 2 || out.Exit != 2 || len(out.Changes) != 0 {
		t.Fatalf("exit %d, %d changes, %v", out.Exit, len(out.Changes), out.Diagnostics)
	}
	for _, d := range out.Diagnostics {
		if d.GetPosition().GetLine() != 3 || d.GetPosition().GetColumn() == 0 || !strings.Contains(d.GetMessage(), "rule r: matches_regex: ") {
			t.Errorf("%v", d)
		}
	}
}
