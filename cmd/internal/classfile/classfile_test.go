package classfile

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestRead(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good, empty, long := put("good #1", `"x"`), put("empty", ""), put("long", strings.Repeat("x", MaxBytes))
	text := `class a { file "` + good + `" } class b { file "` + empty + `" }` + "\n" +
		`class c { file "` + dir + `" } class d { file "` + dir + `/nosuch" } class e { file "` + long + `" }`
	files, unreadable := Read([]byte(text))
	if len(files) != 2 || string(files[good]) != `"x"` || files[empty] == nil || len(files[empty]) != 0 {
		t.Errorf("read %v", files)
	}
	for name, want := range map[string]string{
		dir: "not a regular file", dir + "/nosuch": "no such file or directory", long: "the files of all classes are more than 8388608 bytes long",
	} {
		if unreadable[name] != want {
			t.Errorf("%s: %q, want %q", name, unreadable[name], want)
		}
	}
	if files, unreadable := Read([]byte("pool web { member 10.1.1.1:80 }")); files != nil || unreadable != nil {
		t.Errorf("%v, %v", files, unreadable)
	}
}
