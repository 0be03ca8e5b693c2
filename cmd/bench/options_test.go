package main

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestDefaults(t *testing.T) {
	o, err := parseOptions(nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(o.sides(), " "); got != "bigpipe haproxy nginx" {
		t.Errorf("sides %q", got)
	}
	if o.rounds < 5 || !slices.Equal(o.threads, []int{1, 2}) || o.only != nil {
		t.Errorf("%+v: want 5 rounds or more, one and two threads, every scenario", o)
	}
}

func TestQuick(t *testing.T) {
	o, err := parseOptions([]string{"-quick", "-threads", "2", "-only", "tcp"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if o.rounds != 1 || o.duration != time.Second || !slices.Equal(o.threads, []int{2}) || o.warmUp {
		t.Errorf("%+v", o)
	}
	if o, err = parseOptions([]string{"-quick"}, io.Discard); err != nil || !slices.Equal(o.threads, []int{1}) {
		t.Errorf("%+v, error %v: want one thread", o, err)
	}
	if o, err = parseOptions([]string{"-quick", "-rounds", "3"}, io.Discard); err != nil || o.rounds != 3 {
		t.Errorf("%+v, error %v: want the round that was given", o, err)
	}
}

func TestAllFaultsOfTheFlagsAtOnce(t *testing.T) {
	_, err := parseOptions([]string{
		"-subject", "varnish", "-peers", "varnish,nginx", "-threads", "1,many", "-rounds", "0", "-duration", "1500ms", "-only", "(", "-idle", "0", "word",
	}, io.Discard)
	for _, want := range []string{
		`unknown side "varnish"`, "varnish is the subject", `"many" is not a number`, "-rounds: 0", "-duration: 1.5s", "-only:", "-idle: 0", `unexpected "word"`,
	} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in: %v", want, err)
		}
	}
}

func TestHelpIsNoFault(t *testing.T) {
	var text strings.Builder
	_, err := parseOptions([]string{"-h"}, &text)
	if !errors.Is(err, errHelp) || !strings.Contains(text.String(), "-rounds") {
		t.Errorf("error %v, text %q", err, text.String())
	}
}

func TestRunExitStatus(t *testing.T) {
	for _, c := range []struct {
		args []string
		want int
		text string // on either stream
	}{
		{[]string{"-list"}, exitDone, "keepalive-64"},
		{[]string{"-h"}, exitDone, "libnginx-mod-stream"},
		{[]string{"-rounds", "none"}, exitUsage, "rounds"},
		{[]string{"-peers", "bigpipe"}, exitUsage, "bigpipe is the subject"},
		{[]string{childCommand, "nobody", "-target", "127.0.0.1:1"}, exitNotOK, "nobody"},
	} {
		var text strings.Builder
		if got := run(t.Context(), c.args, &text, &text); got != c.want || !strings.Contains(text.String(), c.text) {
			t.Errorf("%q: %d with %q, want %d with %q", c.args, got, text.String(), c.want, c.text)
		}
	}
}

func TestLengthOfARun(t *testing.T) {
	judgedAtOne, free := scenarioNamed(t, "keepalive-64"), scenarioNamed(t, "body-1m")
	for _, c := range []struct {
		duration time.Duration
		s        scenario
		threads  int
		want     time.Duration
	}{
		{5 * time.Second, judgedAtOne, 1, 5 * time.Second},
		{5 * time.Second, judgedAtOne, 2, 2 * time.Second},
		{5 * time.Second, free, 1, 2 * time.Second},
		{2 * time.Second, free, 1, time.Second},
		{time.Second, free, 2, time.Second},
		{time.Second, scenarioNamed(t, "keepalive-4000"), 1, 3 * time.Second},
	} {
		o := options{duration: c.duration}
		if got := o.length(c.s, c.threads); got != c.want {
			t.Errorf("%s at %d threads of %v: %v, want %v", c.s.name, c.threads, c.duration, got, c.want)
		}
	}
}

func TestChosen(t *testing.T) {
	o, err := parseOptions([]string{"-only", "^(close-64|tcp-stream-[18])/1t$"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, threads := range []int{1, 2} {
		for _, s := range o.chosen(threads) {
			names = append(names, label(s, threads))
		}
	}
	if got := strings.Join(names, " "); got != "close-64/1t tcp-stream-1/1t tcp-stream-8/1t" {
		t.Errorf("chosen %q", got)
	}
	if len(new(options).chosen(1)) != len(scenarios) {
		t.Error("without a pattern every scenario is chosen")
	}
	for _, s := range new(options).chosen(2) {
		if s.single || len(s.goals) > 0 && !s.judgedAt(2) {
			t.Errorf("%s at two threads: want only what is judged or may run there", s.name)
		}
	}
}
