package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"bigpipe/cmd/bigpipe/internal/e2e"
)

// sessions is testdata/token_sessions.json: what clients of token pools meet, as data.
type sessions struct {
	Endpoints  map[string]string // addresses of members by their names POOL-LETTER
	Scenarios  []scenario
	Validation []validation
}

// scenario is a configuration and what happens on it. Its virtual server is 10.0.0.1:80; 10.0.0.11:80 and 10.0.0.12:80 give tokens
// of the pools v1 and v2.
type scenario struct {
	ID     string
	Config []string
	Tries  int // a scenario that depends on time may be too slow now and then
	Steps  []step
}

// step is one thing after the other: a wait, a change of a member, requests. Texts may hold ${VARIABLE}, see [session.fill].
type step struct {
	Wait     string // before each request
	Endpoint *struct{ Name, State string }
	Request  *sessionRequest
	Repeat   int
	Parallel int      // requests at a time
	ForEach  []string `json:"for_each"` // values of ${item}
	Expect   expectation
	Save     struct {
		Cookie, Pod string            // names of variables
		Header      map[string]string // of variables, by the header
	}
	Distribution    map[string]int // exact requests that pools get
	PodsSeen        map[string]int `json:"pods_seen"`
	NoSetCookieFrom string         `json:"no_set_cookie_from"` // a pool
	Jar             map[string][]string
}

type sessionRequest struct {
	Path    string
	Headers map[string]string
	Jar     string
}

// validation is a pool's attributes and what the errors must say; none: the configuration is accepted. A second pool is used beside.
type validation struct {
	Row    int
	Pool   string
	Second *string
	Errors []string
}

func readSessions(t *testing.T) *sessions {
	t.Helper()
	file, err := os.Open("testdata/token_sessions.json")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	s := &sessions{}
	d := json.NewDecoder(file)
	d.DisallowUnknownFields()
	if err := d.Decode(s); err != nil {
		t.Fatal(err)
	}
	return s
}

// session runs one scenario.
type session struct {
	t      *testing.T
	site   *e2e.Site
	names  map[string]string // of members, by address
	addrs  map[string]string // of members, by name
	client *httpClient
	mu     sync.Mutex // guards the variables
	vars   map[string]string
}

// TestSessions runs the scenarios against the real programs: with a connection for each request, on one kept connection, and on one
// with oneconnect, which changes nothing for clients (rule O-14).
func TestSessions(t *testing.T) {
	data := readSessions(t)
	text, names := "10.0.0.1:80 10.0.0.11:80 10.0.0.12:80", map[string]string{}
	for name, addr := range data.Endpoints {
		text += " " + addr
		names[addr] = name
	}
	for _, mode := range []string{"new", "keep", "oneconnect"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			site := newSite(t, text)
			if err := site.StartMembers(slices.Collect(maps.Values(data.Endpoints))...); err != nil {
				t.Fatal(err)
			}
			start(t, site, "dataplane")
			start(t, site, "mgmtd")
			for _, sc := range data.Scenarios {
				t.Run(sc.ID, func(t *testing.T) {
					s := &session{t: t, site: site, names: names, addrs: data.Endpoints}
					var err error
					for range max(sc.Tries, 1) {
						if err = s.run(&sc, mode); err == nil {
							return
						}
					}
					t.Error(err)
				})
			}
		})
	}
}

func (s *session) run(sc *scenario, mode string) error {
	text := strings.Join(sc.Config, "\n")
	if mode == "oneconnect" {
		text = strings.ReplaceAll(text, "{ use ", "{ oneconnect enable use ")
	}
	loadText(s.t, s.site, text)
	s.vars, s.client = map[string]string{}, newHTTPClient(s.site, mode != "new")
	defer s.client.close()
	for i, st := range sc.Steps {
		if err := s.step(&st); err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
	}
	return nil
}

func (s *session) step(st *step) error {
	if st.Endpoint != nil {
		return s.change(s.fill(st.Endpoint.Name), st.Endpoint.State)
	}
	items := st.ForEach
	if items == nil {
		items = slices.Repeat([]string{""}, max(st.Repeat, 1))
	}
	var seen tally
	var requests sync.WaitGroup
	errs := make([]error, len(items))
	parallel := make(chan struct{}, max(st.Parallel, 1))
	for i, item := range items {
		parallel <- struct{}{}
		s.set("item", s.fill(item))
		requests.Go(func() {
			defer func() { <-parallel }()
			if errs[i] = s.request(st, &seen); errs[i] != nil {
				errs[i] = fmt.Errorf("request %d: %w", i+1, errs[i])
			}
		})
		if st.Parallel == 0 {
			requests.Wait()
		}
	}
	requests.Wait()
	return errors.Join(append(errs, seen.check(st), s.jars(st))...)
}

func (s *session) request(st *step, seen *tally) error {
	if st.Wait != "" {
		wait, err := time.ParseDuration(st.Wait)
		if err != nil {
			return err
		}
		time.Sleep(wait)
	}
	headers := map[string]string{}
	for name, value := range st.Request.Headers {
		headers[name] = s.fill(value)
	}
	r, err := s.client.get("10.0.0.1:80", st.Request.Path, headers, st.Request.Jar)
	if err != nil {
		return err
	}
	r.pod = s.names[r.pod]
	seen.add(r)
	s.save(st, r)
	if pool, _, _ := strings.Cut(r.pod, "-"); pool == st.NoSetCookieFrom && len(r.cookies()) > 0 {
		return fmt.Errorf("%s sets a cookie: %v", r.pod, r.cookies())
	}
	return st.Expect.check(r, s.fill)
}

// save keeps what the step names.
func (s *session) save(st *step, r *reply) {
	if st.Save.Pod != "" {
		s.set(st.Save.Pod, r.pod)
	}
	for header, name := range st.Save.Header {
		s.set(name, r.header.Get(header))
	}
	if cookies := r.cookies(); st.Save.Cookie != "" && len(cookies) > 0 {
		s.set(st.Save.Cookie+".name", cookies[0].Name)
		s.set(st.Save.Cookie+".value", cookies[0].Value)
	}
}

func (s *session) set(name, value string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.vars[name] = value
}

// change changes a member: down and up are the machine's, drain and remove the operator's.
func (s *session) change(name, state string) error {
	addr := s.addrs[name]
	m, err := s.site.Member(addr)
	if err != nil {
		return err
	}
	switch state {
	case "down":
		m.Stop()
	case "up":
		return m.Start()
	case "drain":
		output(s.t, s.site, "node", addr, "disable")
	case "remove":
		pool, _, _ := strings.Cut(name, "-")
		output(s.t, s.site, "pool", pool, "delete", "{", "member", addr, "}")
	default:
		return fmt.Errorf("a member cannot become %q", state)
	}
	return nil
}

var variable = regexp.MustCompile(`\$\{([^}]*)\}`)

// fill puts in what was saved, ${token(POOL,MEMBER)} for a token of that pool and member, and ${N x TEXT} for N times the text.
func (s *session) fill(text string) string {
	return variable.ReplaceAllStringFunc(text, func(v string) string {
		name := variable.FindStringSubmatch(v)[1]
		if arguments, ok := strings.CutPrefix(name, "token("); ok {
			pool, member, _ := strings.Cut(strings.TrimSuffix(arguments, ")"), ",")
			return s.mint(pool, member)
		}
		if text, ok := repeated(name); ok {
			return text
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		value, ok := s.vars[name]
		if !ok {
			s.t.Fatalf("nothing is known of %s", v)
		}
		return value
	})
}

// repeated reads "N x TEXT".
func repeated(text string) (string, bool) {
	number, what, ok := strings.Cut(text, " x ")
	n, err := strconv.Atoi(number)
	return strings.Repeat(what, n), ok && err == nil
}

// mint begins sessions in a pool until one is at the member.
func (s *session) mint(pool, member string) string {
	s.t.Helper()
	virtual := map[string]string{"v1": "10.0.0.11:80", "v2": "10.0.0.12:80"}[pool]
	for range 10 {
		r, err := s.client.get(virtual, "/", nil, "")
		if err != nil {
			s.t.Fatal(err)
		}
		if s.names[r.pod] == member && len(r.cookies()) == 1 {
			return r.cookies()[0].Value
		}
	}
	s.t.Fatalf("%s gives no token of %s", virtual, member)
	return ""
}

// jars compares the names of cookies in jars.
func (s *session) jars(st *step) error {
	for jar, want := range st.Jar {
		if got := slices.Sorted(maps.Keys(s.client.jars[jar])); !slices.Equal(got, want) {
			return fmt.Errorf("jar %s holds %q, want %q", jar, got, want)
		}
	}
	return nil
}

// TestSessionsValidation has the rows about what may be configured (rule G-20), checked by the program itself.
func TestSessionsValidation(t *testing.T) {
	site := newSite(t, "")
	for _, v := range readSessions(t).Validation {
		t.Run(fmt.Sprintf("G-20_row_%d", v.Row), func(t *testing.T) {
			text := "pool a { persist_mode token " + v.Pool + " member 10.1.1.1:80 }\n"
			use := "pool a"
			if v.Second != nil {
				text += "pool b { persist_mode token " + *v.Second + " member 10.1.1.2:80 }\n"
				use = "pool a weight 1 pool b weight 1"
			}
			text = variable.ReplaceAllStringFunc(text, func(v string) string {
				long, _ := repeated(variable.FindStringSubmatch(v)[1])
				return long
			})
			file := filepath.Join(site.Dir, "row.conf")
			if err := os.WriteFile(file, []byte(text+"virtual 10.0.0.1:80 { use "+use+" }\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			out, err := site.Command("bigpipe", "-d", "-f", file).CombinedOutput()
			if (err == nil) != (len(v.Errors) == 0) {
				t.Errorf("%s%v\n%s", text, err, out)
			}
			for _, want := range v.Errors {
				if !strings.Contains(string(out), want) {
					t.Errorf("%s%s does not say %q", text, out, want)
				}
			}
		})
	}
}
