package e2e

import "testing"

func TestMatchJSON(t *testing.T) {
	for _, test := range []struct {
		name, want, got string
		match           bool
	}{
		{"equal", `{"a":[1,"x",null,true]}`, `{"a":[1,"x",null,true]}`, true},
		{"order of fields", `{"a":1,"b":2}`, `{"b":2,"a":1}`, true},
		{"any integer", `{"a":"INT"}`, `{"a":17}`, true},
		{"any text", `["TEXT"]`, `["x"]`, true},
		{"anything", `["ANY","ANY"]`, `[{"a":1},null]`, true},
		{"anything has to be there", `["ANY","ANY"]`, `[1]`, false},
		{"another value", `{"a":1}`, `{"a":2}`, false},
		{"integer as string", `{"a":1}`, `{"a":"1"}`, false},
		{"string for any integer", `{"a":"INT"}`, `{"a":"17"}`, false},
		{"negative for any integer", `{"a":"INT"}`, `{"a":-1}`, false},
		{"fraction for any integer", `{"a":"INT"}`, `{"a":1.5}`, false},
		{"empty for any text", `["TEXT"]`, `[""]`, false},
		{"missing field", `{"a":1,"b":2}`, `{"a":1}`, false},
		{"unexpected field", `{"a":1}`, `{"a":1,"b":2}`, false},
		{"longer array", `[1]`, `[1,2]`, false},
		{"null for an object", `{"a":{}}`, `{"a":null}`, false},
		{"deep", `[{"a":[{"b":"INT"}]}]`, `[{"a":[{"b":null}]}]`, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			want, err := decodeJSON(test.want)
			if err != nil {
				t.Fatal(err)
			}
			got, err := decodeJSON(test.got)
			if err != nil {
				t.Fatal(err)
			}
			if err := matchJSON("", want, got); (err == nil) != test.match {
				t.Errorf("match %s against %s: %v", test.got, test.want, err)
			}
		})
	}
	if _, err := decodeJSON(`{} {}`); err == nil {
		t.Error("two documents are taken for one")
	}
}
