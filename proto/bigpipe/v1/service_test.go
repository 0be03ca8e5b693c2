package bigpipev1

import "testing"

func TestDialTarget(t *testing.T) {
	for address, want := range map[string]string{
		"unix:///run/x.sock": "unix:///run/x.sock",
		"10.0.0.1:7":         "dns:///10.0.0.1:7",
		"[::1]:7":            "dns:///[::1]:7",
		"passthrough:7":      "dns:///passthrough:7",
	} {
		if got := DialTarget(address); got != want {
			t.Errorf("%s: %s, not %s", address, got, want)
		}
	}
}
