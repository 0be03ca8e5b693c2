package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"

	pb "bigpipe/proto/bigpipe/v1"
)

func TestParseOptions(t *testing.T) {
	const text, json = pb.OutputFormat_OUTPUT_FORMAT_TEXT, pb.OutputFormat_OUTPUT_FORMAT_JSON
	for _, test := range []struct {
		args string
		want options
	}{
		{"", options{output: text}},
		{"pool web show", options{output: text, words: []string{"pool", "web", "show"}}},
		{"-n pool -n show", options{output: text, numeric: true, words: []string{"pool", "-n", "show"}}},
		{"-f bigip.conf", options{output: text, file: loadFile, path: "bigip.conf"}},
		{"-f -d bigip.conf", options{output: text, file: loadFile, path: "bigip.conf", check: true}},
		{"-d -f bigip.conf", options{output: text, file: loadFile, path: "bigip.conf", check: true}},
		{"-f -", options{output: text, file: loadFile, path: "-"}},
		{"-l more.conf -n", options{output: text, file: mergeFile, path: "more.conf", numeric: true}},
		{"-s", options{output: text, file: saveFile}},
		{"-s saved.conf", options{output: text, file: saveFile, path: "saved.conf"}},
		{"-o json -s", options{output: json, file: saveFile}},
		{"-r", options{output: text, reset: true}},
		{"-a unix:///x -o json version", options{address: "unix:///x", output: json, words: []string{"version"}}},
		{"--address=host:1 --output=json version", options{address: "host:1", output: json, words: []string{"version"}}},
		{"-c one --command two", options{output: text, commands: []string{"one", "two"}}},
		{"-?", options{output: text, help: true}},
		{"-help", options{output: text, help: true}},
		{"-v", options{output: text, version: true}},
		{"--tls-cert c --tls-key k --tls-ca a", options{output: text, tlsCert: "c", tlsKey: "k", tlsCA: "a"}},
		{"-- -n", options{output: text, words: []string{"-n"}}},
		{"-d pool web { member 10.1.1.1:80 }", options{output: text, check: true, words: []string{"pool", "web", "{", "member", "10.1.1.1:80", "}"}}},
	} {
		t.Run(test.args, func(t *testing.T) {
			got, err := parseOptions(strings.Fields(test.args))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(&test.want, got, cmp.AllowUnexported(options{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseOptionsFaults(t *testing.T) {
	for _, args := range []string{
		"-x", "-f", "-l", "-f -d", "-a", "-o", "-o yaml", "-c", "-f a -l b", "-f a b", "-s a b", "--tls-cert",
		"-f a -c b", "-c a b", "-r pool show", "-r -c a", "-r -f a", "-d -s", "-d -r", "-d=x a", "-n=5 version", "-f=a",
	} {
		t.Run(args, func(t *testing.T) {
			if o, err := parseOptions(strings.Fields(args)); !errors.Is(err, errUsage) {
				t.Errorf("%+v, %v", o, err)
			}
		})
	}
}

func TestParseFileCommand(t *testing.T) {
	for _, test := range []struct {
		text string
		want fileCommand
	}{
		{"load", fileCommand{origin: commandOrigin(""), action: loadFile}},
		{"load bigip.conf", fileCommand{origin: commandOrigin(""), action: loadFile, path: "bigip.conf"}},
		{"verify load -", fileCommand{origin: commandOrigin(""), action: loadFile, path: "-", check: true}},
		{"load --dry-run bigip.conf", fileCommand{origin: commandOrigin(""), action: loadFile, path: "bigip.conf", dryRun: true}},
		{"load --confirm-within 5m bigip.conf", fileCommand{origin: commandOrigin(""), action: loadFile, path: "bigip.conf", confirmWithin: 300}},
		{"load bigip.conf --confirm-within=90s", fileCommand{origin: commandOrigin(""), action: loadFile, path: "bigip.conf", confirmWithin: 90}},
		{"merge more.conf", fileCommand{origin: commandOrigin(""), action: mergeFile, path: "more.conf"}},
		{"save", fileCommand{origin: commandOrigin(""), action: saveFile}},
		{`load "sp ace.conf"`, fileCommand{origin: commandOrigin(""), action: loadFile, path: "sp ace.conf"}},
		{"config sync all", fileCommand{origin: commandOrigin(""), action: saveFile, sync: true}},
		{"configsync", fileCommand{origin: commandOrigin(""), action: saveFile, sync: true}},
		{"config save x", fileCommand{origin: commandOrigin(""), action: saveFile, path: "x"}},
		{"merge --dry-run a", fileCommand{origin: commandOrigin(""), action: mergeFile, path: "a", dryRun: true}},
		{"save --dialect=3 a", fileCommand{origin: commandOrigin(""), action: saveFile, path: "a", dialect: 3}},
		{commandText([]string{"load", `a#b {"c"}.conf`}), fileCommand{origin: commandOrigin(""), action: loadFile, path: `a#b {"c"}.conf`}},
		{"save --dialect 3 -", fileCommand{origin: commandOrigin(""), action: saveFile, path: "-", dialect: 3}},
	} {
		t.Run(test.text, func(t *testing.T) {
			got, ok, faults := parseFileCommand(commandOrigin(""), test.text)
			if faults != nil || !ok {
				t.Fatal(ok, faults)
			}
			if diff := cmp.Diff(test.want, got, cmp.AllowUnexported(fileCommand{}), protocmp.Transform()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	for _, text := range []string{
		"load a b", "load --nosuch a", "load --confirm-within 0 a", "load --confirm-within", "load --dialect 3 a", "merge",
		"save --dialect 5", "save --dry-run a", `load ""`, "load --dry-run=no a",
	} {
		t.Run(text, func(t *testing.T) {
			if c, ok, faults := parseFileCommand(commandOrigin(""), text); !ok || !hasError(faults) {
				t.Errorf("%+v, %v, %v", c, ok, faults)
			}
		})
	}
	for _, text := range []string{"", "pool load", "loads", "load a\nsave b"} {
		t.Run("other command "+text, func(t *testing.T) {
			if c, ok, faults := parseFileCommand(commandOrigin(""), text); ok || faults != nil {
				t.Errorf("%+v, %v, %v", c, ok, faults)
			}
		})
	}
}

// TestWriteFile: a link stays, what is no regular file is written into, a folder is refused.
func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	file, link, pipe := filepath.Join(dir, "file"), filepath.Join(dir, "link"), filepath.Join(dir, "pipe")
	if err := os.WriteFile(file, []byte("a longer text than the new one"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("file", link); err != nil {
		t.Fatal(err)
	}
	if err := writeFile(link, []byte("new")); err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(link)
	if err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link became %v, %v", info.Mode(), err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "new" {
		t.Errorf("the target holds %q, %v", text, err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the target's mode is %v, %v", info.Mode(), err)
	}
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	read := make(chan string)
	go func() {
		text, _ := os.ReadFile(pipe)
		read <- string(text)
	}()
	if err := writeFile(pipe, []byte("through")); err != nil {
		t.Fatal(err)
	}
	if text := <-read; text != "through" {
		t.Errorf("through the pipe came %q", text)
	}
	if info, err := os.Lstat(pipe); err != nil || info.Mode()&os.ModeNamedPipe == 0 {
		t.Errorf("the pipe became %v, %v", info.Mode(), err)
	}
	missing := filepath.Join(dir, "missing", "file")
	if err := writeFile(missing, []byte("x")); err == nil || err.Error() != "write "+missing+": no such file or directory" {
		t.Errorf("no folder: %v", err)
	}
	if err := writeFile(dir, []byte("x")); err == nil {
		t.Error("a folder was written")
	}
}
