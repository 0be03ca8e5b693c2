package shell

import "testing"

func TestOneLine(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{`rule r { if (http_uri equals "x   y") { discard } }`, `rule r { if (http_uri equals "x   y") { discard } }`},
		{"pool p { # the first\n  member 10.1.1.1:80\n}", "pool p { member 10.1.1.1:80 }"},
		{"rule r {\n redirect \"http://h/#top\" # away\n}", `rule r { redirect "http://h/#top" }`},
		{"pool p \\\n show", "pool p show"},
	} {
		if got := oneLine(test.text); got != test.want {
			t.Errorf("oneLine(%q) = %q, want %q", test.text, got, test.want)
		}
	}
}
