package grammar

import (
	"testing"
	"time"
)

func TestExpiration(t *testing.T) {
	for text, want := range map[string]uint64{
		"10d": 864000, "0d": 0, "0": 0, "90": 90, "1d 12:30:05": 131405, "02:03": 123, "01:00:00": 3600, "36:00:00": 129600, "1:02:03:04": 93784, "90:00": 5400,
	} {
		t.Run("C-6_"+text, func(t *testing.T) {
			got, err := ParseExpiration(text)
			if err != nil || got != want {
				t.Fatalf("%d, %v, want %d", got, err, want)
			}
			if again, err := ParseExpiration(FormatExpiration(got)); err != nil || again != got {
				t.Errorf("%s reads back as %d, %v", FormatExpiration(got), again, err)
			}
		})
	}
	for _, text := range []string{"", "d", "10x", "10d 25:00:00", "10d 5", "10d 1:2", "1:60", "1:24:00:00", "-1", "1d1", "99999999999", "60000d", "1:2:3:4:5"} {
		if got, err := ParseExpiration(text); err == nil {
			t.Errorf("%q is read as %d", text, got)
		}
	}
}

// TestDuration has the vectors of GEP-2257.
func TestDuration(t *testing.T) {
	for text, want := range map[string]string{
		"0h": "0s", "0s": "0s", "0h0m0s": "0s", "1h": "1h", "30m": "30m", "10s": "10s", "500ms": "500ms", "2h30m": "2h30m", "150m": "2h30m", "7230s": "2h30s",
		"1h30m10s": "1h30m10s", "10s30m1h": "1h30m10s", "100ms200ms300ms": "600ms", "01h": "1h", "00060m": "1h", "1h2h20m10m": "3h30m",
	} {
		t.Run("G-16_"+text, func(t *testing.T) {
			d, err := ParseDuration(text)
			if err != nil || FormatDuration(d) != want {
				t.Errorf("%s, %v, want %s", FormatDuration(d), err, want)
			}
		})
	}
	for _, text := range []string{"", "0", "1", "1m1", "1d", "1h30m10s20ms50h", "999999h", "1.5h", "-15m", "1us", " 1h", "1h "} {
		if d, err := ParseDuration(text); err == nil {
			t.Errorf("%q is read as %s", text, d)
		}
	}
	for text, want := range map[string]uint64{"3600": 3600000, "1h30m": 5400000, "250ms": 250} {
		if ms, fault := parseTimeout(text); ms != want || fault != "" {
			t.Errorf("token_timeout %s: %d %s", text, ms, fault)
		}
	}
	if _, fault := parseTimeout("359996401"); fault == "" {
		t.Error("a timeout that no duration can say is read")
	}
	if got := formatTimeout(uint64((90 * time.Minute).Milliseconds())); got != "5400" {
		t.Error(got)
	}
}

func TestServices(t *testing.T) {
	for text, want := range map[string]uint16{
		"http": 80, "https": 443, "ssl": 443, "80": 80, "0": 0, "*": 0, "any": 0, "ftp": 21, "smtp": 25, "sip": 5060, "65535": 65535, "domain": 53, "ms-sql-s": 1433,
	} {
		if got, ok := ParseService(text); !ok || got != want {
			t.Errorf("%s: %d %v, want %d", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "65536", "-1", "htp", "8o", "HTTP "} {
		if got, ok := ParseService(text); ok {
			t.Errorf("%q is read as %d", text, got)
		}
	}
	if len(serviceNames) < 120 {
		t.Errorf("%d services", len(serviceNames))
	}
	for port, want := range map[uint16]string{443: "https", 80: "http", 0: "any", 4: "4"} {
		if got := ServiceName(port); got != want {
			t.Errorf("%d: %s, want %s", port, got, want)
		}
	}
	for _, name := range serviceNames {
		port, _ := ParseService(name)
		if back, ok := ParseService(ServiceName(port)); !ok || back != port {
			t.Errorf("%s: %d is shown as %s", name, port, ServiceName(port))
		}
	}
}

func TestEndpoints(t *testing.T) {
	for text, want := range map[string]string{
		"10.1.1.1:80": "10.1.1.1:80", "10.1.1.1:http": "10.1.1.1:80", "10.1.1.1": "10.1.1.1", "[2001:DB8::1]:80": "[2001:db8::1]:80",
		"[::1]": "::1", "2001:db8::1": "2001:db8::1", "v1:ssl": "v1:443", "0.0.0.0:*": "0.0.0.0:0", "*:80": "0.0.0.0:80", "*:*": "0.0.0.0:0",
		"a-b.example.com:any": "a-b.example.com:0", "[::ffff:10.0.0.1]:80": "10.0.0.1:80", "internal": "internal",
	} {
		if e, fault, _ := parseEndpoint(text); fault != "" || e.String() != want {
			t.Errorf("%s: %s %s, want %s", text, e, fault, want)
		}
	}
	for _, text := range []string{"10.1.1.300:80", "10.1.1:80", "10.1.1.1:", "10.1.1.1:htp", "[::1:80", "[::1]80", "::1:x", ":80", "010.1.1.1:80", "10.0.0.0/8:80", "a b:80", "-", "1:80"} {
		if text == "-" {
			continue
		}
		if e, fault, _ := parseEndpoint(text); fault == "" {
			t.Errorf("%q is read as %s", text, e)
		}
	}
}

func TestMasks(t *testing.T) {
	for _, text := range []string{"255.255.255.0", "0.0.0.0", "255.255.255.255", "255.255.254.0"} {
		if mask, none, fault, _ := parseMask(text); mask != text || none || fault != "" {
			t.Errorf("%s: %s %v %s", text, mask, none, fault)
		}
	}
	if _, none, fault, _ := parseMask("none"); !none || fault != "" {
		t.Error("none is no mask")
	}
	for text, meant := range map[string]string{"/24": "255.255.255.0", "/0": "0.0.0.0", "/32": "255.255.255.255", "/33": "", "24": "", "255.0.255.0": "", "ffff::": "", "x": ""} {
		if _, _, fault, suggestion := parseMask(text); fault == "" || suggestion != meant {
			t.Errorf("%s: fault %q, suggestion %q", text, fault, suggestion)
		}
	}
}

func TestNames(t *testing.T) {
	for name, ok := range map[string]bool{
		"web": true, "lab-test_abde.1": true, "~user/site": true, "appgen_168.1.1.1.80": true, "appgen_2001:db8:aaaa:bbbb:cccc:dddd:eeee:ffff.65535": true,
		"": false, "a b": false, "a=b": false, "0123456789012345678901234567890": true, "01234567890123456789012345678901": false,
	} {
		if fault := nameFault("pool", name); (fault == "") != ok {
			t.Errorf("%q: %q", name, fault)
		}
	}
}

func TestNearest(t *testing.T) {
	words := []string{"persist_mode", "persist_limit", "lb_mode", "http", "ftp", "enable", "disable"}
	for word, want := range map[string]string{
		"persist_mdoe": "persist_mode", "htp": "http", "enabel": "enable", "dissable": "disable", "lbmode": "lb_mode", "xyz": "", "": "", "Höhle": "",
	} {
		if got := nearest(word, words); got != want {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
}
