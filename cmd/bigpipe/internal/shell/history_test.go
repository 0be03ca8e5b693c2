package shell

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestOneLine(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{`rule r { if (http_uri equals "x   y") { discard } }`, `rule r { if (http_uri equals "x   y") { discard } }`},
		{"pool p { # the first\n  member 10.1.1.1:80\n}", "pool p { member 10.1.1.1:80 }"},
		{"rule r {\n redirect \"http://h/#top\" # away\n}", `rule r { redirect "http://h/#top" }`},
		{"pool p \\\n show", "pool p show"},
		{"pool p {\n\n# nothing\n}", "pool p { }"},
	} {
		if got := oneLine(test.text); got != test.want {
			t.Errorf("oneLine(%q) = %q, want %q", test.text, got, test.want)
		}
	}
}

func TestHistory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	if err := os.WriteFile(path, []byte("pool web show\n\n  list  \n"), 0o644); err != nil {
		t.Fatal(err)
	}
	h := open(t, path)
	if want := []string{"pool web show", "list"}; !cmp.Equal(h.commands, want) {
		t.Errorf("read %q, want %q", h.commands, want)
	}
	other := open(t, path) // a shell that runs at the same time
	for _, c := range []string{"list", "history", "history", "", "list"} {
		if err := h.add(c); err != nil {
			t.Fatal(err)
		}
	}
	if err := other.add("summary"); err != nil {
		t.Fatal(err)
	}
	if got, want := open(t, path).commands, []string{"pool web show", "list", "history", "list", "summary"}; !cmp.Equal(got, want) {
		t.Errorf("kept %q, want %q", got, want)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the history is %v, %v; only its owner may read it", info.Mode(), err)
	}
}

func TestHistory_is_bounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	h := open(t, path)
	for i := range 2*maxHistory + 5 {
		if err := h.add(fmt.Sprint("pool p", i, " show")); err != nil {
			t.Fatal(err)
		}
	}
	if len(h.commands) != maxHistory {
		t.Errorf("%d commands in memory", len(h.commands))
	}
	if h = open(t, path); len(h.commands) != maxHistory || h.commands[maxHistory-1] != fmt.Sprint("pool p", 2*maxHistory+4, " show") {
		t.Errorf("%d commands in the file, the last is %q", len(h.commands), h.commands[len(h.commands)-1])
	}
}

func TestHistory_that_cannot_be_kept(t *testing.T) {
	h, err := openHistory(filepath.Join(t.TempDir(), "missing", "history"))
	if err == nil {
		t.Error("no error for a folder that does not exist")
	}
	if err := h.add("list"); err != nil || !cmp.Equal(h.commands, []string{"list"}) {
		t.Errorf("not kept in memory: %q, %v", h.commands, err)
	}
}

func open(t *testing.T, path string) *history {
	t.Helper()
	h, err := openHistory(path)
	if err != nil {
		t.Fatal(err)
	}
	return h
}
