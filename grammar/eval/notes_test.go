package eval

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"bigpipe/grammar"
	"bigpipe/store/config"
)

// TestNotes: what is accepted without an effect is named, one line a kind; what makes no difference is not.
func TestNotes(t *testing.T) {
	const text = `interface exp0 dest enable
interface exp1 timeout 30
pool quiet { snat enable ip_tos to client 0 mirror persist disable passive_health disable member 10.1.1.1:80 priority 0 }
pool web { min_active_members 1 member 10.1.1.1:80 priority 1 member 10.1.1.2:80 priority 2 mirror persist enable }
pool app { snat disable cookie_name N persist_mode cookie member 10.1.1.3:80 }
vip 10.0.0.1:80 { use pool web svcdown_reset enable translate port disable translate addr enable }
`
	statements, faults := grammar.Parse("f", []byte(text))
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	var got []string
	for _, n := range Evaluate(config.NewTree(), statements, Options{Mode: ModeLoad}).Notes() {
		got = append(got, n.GetMessage())
	}
	want := []string{
		"interface: 2 statements kept, not in effect",
		"pool: ip_tos to client, mirror persist, snat kept, not in effect",
		"virtual: svcdown_reset kept, not in effect",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
