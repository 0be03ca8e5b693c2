package grammar

import (
	"strings"
	"testing"

	pb "bigpipe/proto/bigpipe/v1"
)

func TestClassFiles(t *testing.T) {
	const text = `# class x file "comment"
class a file "a.txt"
class b { "x"
  file "dir/b #1.txt" }
pool class { member 10.1.1.1:80 }
rule r { if ( http_uri equals "class c file c.txt" ) { use ( class ) } }
class c { "file" }
class d { file a.txt }
class e file e.txt
`
	if got := strings.Join(ClassFiles([]byte(text)), "|"); got != "a.txt|dir/b #1.txt|e.txt" {
		t.Errorf("%s", got)
	}
	if got := ClassFiles([]byte("pool web { member 10.1.1.1:80 }")); got != nil {
		t.Errorf("%v", got)
	}
}

// FuzzClassFile: any bytes are read without a panic, and what was read without a fault reads the same when it is written out.
func FuzzClassFile(f *testing.F) {
	f.Add([]byte("\".gif\", \".png\"\n80 plain,\nhost 10.1.1.1 network 10.0.0.0 mask 255.0.0.0,\n# end"))
	f.Add([]byte("host\nnetwork 10.0.0.0 mask /8 { } ( ) ' , \"open"))
	f.Fuzz(func(t *testing.T, src []byte) {
		read, faults := ParseClassFile("f", src)
		if failed(faults) {
			return
		}
		var b strings.Builder
		for _, text := range read.GetStrings() {
			b.WriteString(quote(text) + "\n")
		}
		for _, host := range read.GetHosts() {
			b.WriteString("host " + host + ",\n")
		}
		for _, n := range read.GetNetworks() {
			b.WriteString("network " + n.GetAddress() + " netmask " + n.GetNetmask() + "\n")
		}
		again, faults := ParseClassFile("f", []byte(b.String()))
		if failed(faults) || !sameContents(read, again) {
			t.Errorf("%q\n%v\n%v\n%v", b.String(), read, again, faults)
		}
	})
}

func sameContents(a, b *pb.ClassContents) bool {
	return strings.Join(a.GetStrings(), "|") == strings.Join(b.GetStrings(), "|") && strings.Join(a.GetHosts(), "|") == strings.Join(b.GetHosts(), "|") &&
		len(a.GetNetworks()) == len(b.GetNetworks())
}
