package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

const (
	// scriptTime bounds one script; its daemons are killed then, and the script fails by that.
	scriptTime = 90 * time.Second
	// patience bounds eventually.
	patience = 15 * time.Second
)

// Scripts runs the scripts of a folder, each on a site of its own. With update, cmp rewrites what it compares with.
func Scripts(t *testing.T, dir, programs, examples string, update bool) {
	testscript.Run(t, testscript.Params{
		Dir:           dir,
		UpdateScripts: update,
		Cmds:          commands(),
		Setup: func(env *testscript.Env) error {
			name := strings.TrimPrefix(filepath.Base(env.WorkDir), "script-")
			text, err := os.ReadFile(filepath.Join(dir, name+".txtar"))
			if err != nil {
				return err
			}
			site, err := NewSite(programs, env.WorkDir, string(text))
			if err != nil {
				return err
			}
			env.Values[siteKey{}] = &script{Site: site, text: string(text)}
			env.Setenv("PATH", programs+string(os.PathListSeparator)+env.Getenv("PATH"))
			env.Setenv("HOME", env.WorkDir)
			env.Setenv("BIGPIPE_ADDRESS", site.Address())
			env.Setenv("EXAMPLES", examples)
			option, value, _ := strings.Cut(raceOptions, "=")
			env.Setenv(option, value)
			watchdog := time.AfterFunc(scriptTime, site.abort)
			env.Defer(func() {
				watchdog.Stop()
				if err := site.Close(); err != nil {
					env.T().(testing.TB).Error(err)
				}
			})
			return nil
		},
	})
}

type siteKey struct{}

// script is a site with the text of the script that runs on it.
type script struct {
	*Site
	*testscript.TestScript
	text string
}

// command does its work and returns what it prints.
type command func(s *script, args []string) (string, error)

// The commands of scripts beside those of testscript. ADDRESS is always one of the configuration, never its place on
// loopback; every ADDRESS:SERVICE that the script mentions has a place there, but for 192.0.2.0/24, which has none.
//
//	start                                 dataplane, mgmtd, and every member that stands after the word member in the script
//	start both                            the same with a second dataplane, which mgmtd calls two. What is 192.168.200.N to its
//	                                      configuration is 192.168.201.N to the script's clients
//	mgmtd|dataplane|dataplane2 start|stop|kill   kill is SIGKILL
//	map FILE...                           also give a place to what the files mention (before dataplane start)
//	member start|stop ADDRESS...          a stopped one refuses connections
//	member close|answer ADDRESS...        hang up on connections, or answer again
//	member delay DURATION ADDRESS...      wait before each answer
//	member count|request ADDRESS          print the connections so far, or the head of the last request
//	bigpipe|b|sysctl ARGS...              run the program; status 0 is expected
//	fails-with STATUS bigpipe|b|sysctl ARGS...
//	stored bigpipe|b|sysctl ARGS...       status 0, or 3: an attribute that no dataplane acts on yet is stored all the same
//	client [-from A] [-jar NAME] [-http10] [-header LINE] [-expires SECONDS] ADDRESS ['PATH[ COOKIES]']...
//	                                      requests on one connection; prints "NODE STATUS" and Set-Cookie lines of each. A member
//	                                      answers a request with the line "Answer: LINE" with LINE in its head
//	tcp [-from A] ADDRESS [LINE]          one line there and back
//	tcp open NAME [-from A] ADDRESS, tcp send NAME LINE, tcp close NAME
//	eventually [-stdout PATTERN] COMMAND  until it succeeds (and prints what is wanted)
//	holds DURATION [-stdout PATTERN] COMMAND   as often as possible for so long, and each time
//	clear-each                            clear each record that persist dump prints by the words of its row alone
//	json FILE                             the last output is one JSON document, equal to FILE (see matchJSON)
func commands() map[string]func(ts *testscript.TestScript, neg bool, args []string) {
	cmds := map[string]command{
		"start": cmdStart, "mgmtd": daemon("mgmtd"), "dataplane": daemon("dataplane"), second: daemon(second), "map": cmdMap, "member": cmdMember,
		"client": cmdClient, "tcp": lines("tcp"), "udp": lines("udp"), "json": cmdJSON,
		"clear-each": cmdClearEach,
	}
	programs := map[string]command{"fails-with": cmdFailsWith, "stored": cmdStored}
	for _, name := range []string{"bigpipe", "b", "sysctl"} {
		programs[name] = func(s *script, args []string) (string, error) { return "", s.Exec(name, args...) }
	}
	all := map[string]func(ts *testscript.TestScript, neg bool, args []string){}
	cmds["eventually"] = repeated(cmds, programs, (*script).eventually)
	cmds["holds"] = repeated(cmds, programs, (*script).holds)
	for name, cmd := range cmds {
		all[name] = func(ts *testscript.TestScript, neg bool, args []string) {
			if out, ok := run(ts, neg, args, cmd); ok && name != "json" {
				fmt.Fprint(ts.Stdout(), out)
			}
		}
	}
	for name, cmd := range programs {
		all[name] = func(ts *testscript.TestScript, neg bool, args []string) {
			run(ts, neg, args, cmd) // it has set stdout and stderr itself
		}
	}
	return all
}

// run runs a command of the script. It reports whether the command succeeded; with neg it has to fail.
func run(ts *testscript.TestScript, neg bool, args []string, cmd command) (string, bool) {
	s := ts.Value(siteKey{}).(*script)
	s.TestScript = ts
	out, err := cmd(s, args)
	switch {
	case err != nil && neg:
		ts.Logf("failed, as it should: %v", err)
	case err != nil:
		ts.Logf("%s", out)
		ts.Fatalf("%v", err)
	case neg:
		ts.Logf("%s", out)
		ts.Fatalf("it succeeded")
	}
	return out, err == nil
}

// attempt runs the repeated command once and checks what it printed.
type attempt func() (string, error)

// repeated is a command that runs another one by the rest of its arguments: [-stdout PATTERN] COMMAND.
func repeated(cmds, programs map[string]command, repeat func(s *script, args []string, once func(args []string) (attempt, error)) (string, error)) command {
	return func(s *script, args []string) (string, error) {
		return repeat(s, args, func(args []string) (attempt, error) {
			pattern := regexp.MustCompile("")
			if len(args) > 1 && args[0] == "-stdout" {
				var err error
				if pattern, err = regexp.Compile("(?m)" + args[1]); err != nil {
					return nil, err
				}
				args = args[2:]
			}
			if len(args) == 0 || cmds[args[0]] == nil && programs[args[0]] == nil {
				return nil, fmt.Errorf("no command in %q", args)
			}
			return func() (out string, err error) {
				if program := programs[args[0]]; program != nil {
					_, err = program(s, args[1:])
					out = s.ReadFile("stdout")
				} else {
					out, err = cmds[args[0]](s, args[1:])
				}
				if err == nil && !pattern.MatchString(out) {
					err = fmt.Errorf("%q does not match %q", out, pattern)
				}
				return out, err
			}, nil
		})
	}
}

func (s *script) eventually(args []string, command func(args []string) (attempt, error)) (string, error) {
	once, err := command(args)
	if err != nil {
		return "", err
	}
	for deadline := time.Now().Add(patience); ; time.Sleep(50 * time.Millisecond) {
		out, err := once()
		if err == nil {
			return out, nil
		}
		if time.Now().After(deadline) {
			return out, fmt.Errorf("not within %v: %w", patience, err)
		}
	}
}

func (s *script) holds(args []string, command func(args []string) (attempt, error)) (string, error) {
	if len(args) == 0 {
		return "", errors.New("usage: holds DURATION [-stdout PATTERN] COMMAND")
	}
	length, err := time.ParseDuration(args[0])
	if err != nil {
		return "", err
	}
	once, err := command(args[1:])
	if err != nil {
		return "", err
	}
	for end := time.Now().Add(length); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if out, err := once(); err != nil {
			return out, err
		}
	}
	return "", nil
}
