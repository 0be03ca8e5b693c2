package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"

	pb "bigpipe/proto/bigpipe/v1"
)

var memberWord = regexp.MustCompile(`\bmember (\d+\.\d+\.\d+\.\d+:[a-z0-9]+)`)

func cmdStart(s *script, args []string) (string, error) {
	both := len(args) == 1 && args[0] == "both"
	if len(args) > 0 && !both {
		return "", errors.New("usage: start [both]")
	}
	for _, match := range memberWord.FindAllStringSubmatch(s.text, -1) {
		m, err := s.Member(match[1])
		if err != nil {
			continue // faulty words stand in scripts on purpose
		}
		if !m.running() {
			if err := m.Start(); err != nil {
				return "", err
			}
		}
	}
	if both {
		return "", s.StartBoth()
	}
	if err := s.StartDaemon("dataplane"); err != nil {
		return "", err
	}
	return "", s.StartDaemon("mgmtd")
}

func daemon(name string) command {
	return func(s *script, args []string) (string, error) {
		verb := ""
		if len(args) > 0 {
			verb = args[0]
		}
		switch verb {
		case "start":
			return "", s.StartDaemon(name, args[1:]...)
		case "stop":
			return "", s.StopDaemon(name)
		case "kill":
			return "", s.KillDaemon(name)
		}
		return "", fmt.Errorf("usage: %s start|stop|kill", name)
	}
}

func cmdMap(s *script, args []string) (string, error) {
	for _, file := range args {
		if err := s.addresses.place(s.ReadFile(file)); err != nil {
			return "", err
		}
	}
	return "", nil
}

func cmdMember(s *script, args []string) (string, error) {
	usage := errors.New("usage: member start|stop|close|answer|count|request ADDRESS..., member delay DURATION ADDRESS")
	if len(args) < 2 {
		return "", usage
	}
	verb, args := args[0], args[1:]
	var delay time.Duration
	if verb == "delay" {
		var err error
		if delay, err = time.ParseDuration(args[0]); err != nil {
			return "", err
		}
		args = args[1:]
	}
	var out strings.Builder
	for _, real := range args {
		m, err := s.Member(real)
		if err != nil {
			return "", err
		}
		switch verb {
		case "start":
			err = m.Start()
		case "stop":
			m.Stop()
		case "close":
			m.Behave(HangUp, 0)
		case "answer", "delay":
			m.Behave(Answer, delay)
		case "count":
			fmt.Fprintln(&out, m.Accepted())
		case "request":
			out.WriteString(m.Request())
		default:
			err = usage
		}
		if err != nil {
			return "", err
		}
	}
	return out.String(), nil
}

func cmdFailsWith(s *script, args []string) (string, error) {
	if len(args) < 2 {
		return "", errors.New("usage: fails-with STATUS PROGRAM [ARG]")
	}
	want, err := strconv.Atoi(args[0])
	if err != nil {
		return "", err
	}
	status, err := s.status(args[1:])
	if err == nil && status != want {
		err = fmt.Errorf("it ended with status %d, not %d", status, want)
	}
	return "", err
}

func cmdStored(s *script, args []string) (string, error) {
	if len(args) == 0 {
		return "", errors.New("usage: stored PROGRAM [ARG]")
	}
	status, err := s.status(args)
	if err == nil && status != pb.ExitDone && status != pb.ExitNotInEffect {
		err = fmt.Errorf("it ended with status %d, neither %d nor %d", status, pb.ExitDone, pb.ExitNotInEffect)
	}
	return "", err
}

// status runs a program and returns its exit status.
func (s *script) status(args []string) (int, error) {
	err := s.Exec(args[0], args[1:]...)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode(), nil
	}
	return 0, err
}

// options takes the options NAME VALUE off the front of args.
func options(args []string, values map[string]*string, flags map[string]*bool) ([]string, error) {
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		if flag := flags[args[0]]; flag != nil {
			*flag, args = true, args[1:]
			continue
		}
		value := values[args[0]]
		if value == nil || len(args) < 2 {
			return nil, fmt.Errorf("option %s: unknown, or without a value", args[0])
		}
		*value, args = args[1], args[2:]
	}
	return args, nil
}

func cmdClient(s *script, args []string) (string, error) {
	var c client
	var jarName, expires string
	args, err := options(args, map[string]*string{
		"-from": &c.from, "-header": &c.header, "-jar": &jarName, "-expires": &expires,
	}, map[string]*bool{"-http10": &c.http10})
	if err != nil {
		return "", err
	}
	if len(args) == 0 {
		return "", errors.New("usage: client [options] ADDRESS [PATH or PATH and COOKIES]")
	}
	if jarName != "" {
		if s.jars[jarName] == nil {
			s.jars[jarName] = jar{}
		}
		c.jar = s.jars[jarName]
	}
	var requests []request
	for _, arg := range args[1:] {
		path, cookie, _ := strings.Cut(arg, " ")
		requests = append(requests, request{path, cookie})
	}
	if len(requests) == 0 {
		requests = []request{{path: "/"}}
	}
	before := time.Now()
	replies, err := s.get(c, args[0], requests...)
	after := time.Now()
	var out strings.Builder
	for _, r := range replies {
		out.WriteString(r.String())
		if expires != "" && err == nil {
			err = checkExpires(r, expires, before, after)
		}
	}
	return out.String(), err
}

// checkExpires checks that each cookie expires the given seconds after a moment between before and after.
func checkExpires(r Reply, seconds string, before, after time.Time) error {
	life, err := time.ParseDuration(seconds + "s")
	if err != nil {
		return err
	}
	for _, line := range r.SetCookie {
		_, date, _ := strings.Cut(line, "expires=")
		date, _, _ = strings.Cut(date, ";")
		at, err := time.Parse("Mon, 02-Jan-2006 15:04:05 GMT", date)
		if err != nil {
			return fmt.Errorf("%s: %w", line, err)
		}
		if at.Before(before.Add(life-time.Second)) || at.After(after.Add(life+time.Second)) {
			return fmt.Errorf("%s: expires %v from now, not %v", line, at.Sub(after), life)
		}
	}
	return nil
}

// lines makes the command that sends lines over a network, "tcp" or "udp", and prints the answers.
func lines(network string) command {
	return func(s *script, args []string) (string, error) { return s.lines(network, args) }
}

func (s *script) lines(network string, args []string) (string, error) {
	verb, name := "", ""
	if len(args) > 1 && (args[0] == "open" || args[0] == "send" || args[0] == "close") {
		verb, name, args = args[0], args[1], args[2:]
	}
	from := ""
	args, err := options(args, map[string]*string{"-from": &from}, nil)
	if err != nil {
		return "", err
	}
	h := s.held[name]
	if verb == "" || verb == "open" {
		if len(args) == 0 || h != nil {
			return "", fmt.Errorf("usage: %s [open NAME] [-from A] ADDRESS [LINE], with a new NAME", network)
		}
		conn, err := s.dial(network, from, args[0])
		if err != nil {
			return "", err
		}
		h = &held{conn: conn, reader: bufio.NewReader(conn)}
		args = args[1:]
	}
	if h == nil {
		return "", fmt.Errorf("no connection %q", name)
	}
	switch verb {
	case "open":
		s.held[name] = h
		if len(args) == 0 {
			return "", nil
		}
	case "close":
		delete(s.held, name)
		return "", h.conn.Close()
	case "":
		defer h.conn.Close()
	}
	return h.say(strings.Join(append(args, "hello")[:max(1, len(args))], " "))
}
