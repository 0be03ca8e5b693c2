package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

func cmdJSON(s *script, args []string) (string, error) {
	if len(args) != 1 {
		return "", errors.New("usage: json FILE")
	}
	got, err := decodeJSON(s.ReadFile("stdout"))
	if err != nil {
		return "", fmt.Errorf("stdout: %w", err)
	}
	want, err := decodeJSON(s.ReadFile(args[0]))
	if err != nil {
		return "", fmt.Errorf("%s: %w", args[0], err)
	}
	return "", matchJSON("", want, got)
}

// decodeJSON reads a text that holds one document and nothing else.
func decodeJSON(text string) (any, error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("more than one document")
	}
	return v, nil
}

// matchJSON compares field by field: no field may be missing, and none too many. In the wanted document the string "INT"
// stands for any integer from 0 up, "TEXT" for any string that is not empty, and "ANY" for anything.
func matchJSON(path string, want, got any) error {
	switch want := want.(type) {
	case map[string]any:
		got, ok := got.(map[string]any)
		if !ok {
			return fmt.Errorf("%s: no object", path)
		}
		var errs []error
		for name, w := range want {
			g, ok := got[name]
			if !ok {
				errs = append(errs, fmt.Errorf("%s.%s is missing", path, name))
				continue
			}
			errs = append(errs, matchJSON(path+"."+name, w, g))
		}
		for name := range got {
			if _, ok := want[name]; !ok {
				errs = append(errs, fmt.Errorf("%s.%s is unexpected", path, name))
			}
		}
		return errors.Join(errs...)
	case []any:
		got, ok := got.([]any)
		if !ok || len(got) != len(want) {
			return fmt.Errorf("%s: %s, not an array of %d", path, text(got), len(want))
		}
		var errs []error
		for i, w := range want {
			errs = append(errs, matchJSON(fmt.Sprintf("%s[%d]", path, i), w, got[i]))
		}
		return errors.Join(errs...)
	case string:
		if want == "ANY" {
			return nil
		}
		if want == "INT" {
			if n, ok := got.(json.Number); ok && !strings.ContainsAny(n.String(), "-.eE") {
				return nil
			}
		}
		if s, ok := got.(string); want == "TEXT" && ok && s != "" {
			return nil
		}
	}
	if want != got {
		return fmt.Errorf("%s: %s, not %s", path, text(got), text(want))
	}
	return nil
}

func text(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err.Error()
	}
	return strings.TrimSpace(b.String())
}
