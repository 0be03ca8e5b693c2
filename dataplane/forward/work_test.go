package forward

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// cpu is how much of a processor this process has used; what others use of it does not count.
func cpu(t testing.TB) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Pain 1: a Cookie line that begins with a separator, or has nothing else, costs what any other does: far less than 5 ms of a
// processor, with the work of the client and of the member in it. The middle of several batches counts: garbage is collected in
// some of them.
func TestPain1(t *testing.T) {
	const batch, batches = 50, 5
	for _, tt := range []struct{ name, cookie, who string }{
		{"semicolon_first", ";" + name + "=" + c2, "s2"},
		{"comma_first", "," + name + "=" + c2, ""},
		{"semicolons", ";;;;", ""},
		{"empty", "", ""},
		{"many_semicolons", strings.Repeat(";", 4000), ""},
		{"many_commas", strings.Repeat(",", 4000) + ";" + name + "=" + c2, "s2"},
		{"many_of_the_name", strings.Repeat(name+"=;", 150), ""},
	} {
		t.Run("pain_1_"+tt.name, func(t *testing.T) {
			x := newFixture(t, "R", nil, nil)
			c := x.dial()
			var used []time.Duration
			for range batches {
				before := cpu(t)
				for range batch {
					c.send(get("Cookie: " + tt.cookie))
					who, set := server(t, c.response())
					if tt.who != "" && (who != tt.who || set != "") || tt.who == "" && (who == "" || set == "") {
						t.Fatalf("%s answers and sets %q", who, set)
					}
				}
				used = append(used, (cpu(t)-before)/batch)
			}
			slices.Sort(used)
			if middle := used[batches/2]; middle > 5*time.Millisecond {
				t.Errorf("a request costs %v of a processor", middle)
			}
			t.Log(fmt.Sprint(used))
		})
	}
}
