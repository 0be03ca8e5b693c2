package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"bigpipe/cmd/bigpipe/internal/e2e"
)

// httpClient is a client with cookies. It may be used by several goroutines at a time.
type httpClient struct {
	site      *e2e.Site
	transport *http.Transport
	mu        sync.Mutex
	jars      map[string]map[string]string // cookies by name
}

func newHTTPClient(site *e2e.Site, keep bool) *httpClient {
	return &httpClient{
		site: site, jars: map[string]map[string]string{},
		transport: &http.Transport{DisableKeepAlives: !keep, DisableCompression: true, MaxIdleConnsPerHost: 1, MaxIdleConns: 4},
	}
}

func (c *httpClient) close() { c.transport.CloseIdleConnections() }

// reply is what a client got; pod is who answered.
type reply struct {
	status int
	pod    string
	header http.Header
}

// cookies are those that the response sets, in its order.
func (r *reply) cookies() []*http.Cookie { return (&http.Response{Header: r.header}).Cookies() }

// get sends a request to a virtual server, with the cookies of a jar, which keeps those of the response. Names of headers are sent as
// they are.
func (c *httpClient) get(virtual, path string, headers map[string]string, jar string) (*reply, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	c.mu.Lock()
	place, err := c.site.Place(virtual)
	c.mu.Unlock()
	if err != nil {
		return nil, err
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+place.String()+path, nil)
	if err != nil {
		return nil, err
	}
	for name, value := range headers {
		q.Header[name] = []string{value}
	}
	if cookies := c.cookies(jar); cookies != "" {
		q.Header.Set("Cookie", cookies)
	}
	r, err := c.transport.RoundTrip(q)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	if err := r.Body.Close(); err != nil {
		return nil, err
	}
	got := &reply{status: r.StatusCode, pod: strings.TrimSpace(string(body)), header: r.Header}
	c.keep(jar, got)
	return got, nil
}

func (c *httpClient) cookies(jar string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(c.jars[jar])) {
		pairs = append(pairs, name+"="+c.jars[jar][name])
	}
	return strings.Join(pairs, "; ")
}

func (c *httpClient) keep(jar string, r *reply) {
	if jar == "" {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.jars[jar] == nil {
		c.jars[jar] = map[string]string{}
	}
	for _, set := range r.cookies() {
		c.jars[jar][set.Name] = set.Value
	}
}

// expectation is what a response must be. Texts may hold variables.
type expectation struct {
	Status      int
	Pod         string
	PodIn       []string         `json:"pod_in"`
	PodNot      string           `json:"pod_not"`
	SetCookie   *expectedCookie  `json:"set_cookie"`
	NoSetCookie bool             `json:"no_set_cookie"`
	Header      *expectedPattern `json:"header"`
}

// expectedCookie is what the first cookie of a response must be.
type expectedCookie struct {
	Name       string
	NameRegex  string   `json:"name_regex"`
	ValueRegex string   `json:"value_regex"`
	NoAttr     []string `json:"no_attr"`
	AnyAttr    []string `json:"any_attr"`
	MaxAge     int      `json:"max_age"`
	Path       string
}

type expectedPattern struct {
	Name       string
	ValueRegex string `json:"value_regex"`
}

func (e *expectation) check(r *reply, fill func(string) string) error {
	switch {
	case e.Status != 0 && r.status != e.Status:
		return fmt.Errorf("status %d, want %d", r.status, e.Status)
	case e.Pod != "" && r.pod != fill(e.Pod):
		return fmt.Errorf("%q answers, want %s", r.pod, fill(e.Pod))
	case e.PodNot != "" && (r.pod == fill(e.PodNot) || r.pod == ""):
		return fmt.Errorf("%q answers, want another one", r.pod)
	case len(e.PodIn) > 0 && !slices.Contains(e.PodIn, r.pod):
		return fmt.Errorf("%q answers, want one of %q", r.pod, e.PodIn)
	case e.NoSetCookie && len(r.cookies()) > 0:
		return fmt.Errorf("a cookie is set: %q", r.header["Set-Cookie"])
	case e.Header != nil && !regexp.MustCompile(e.Header.ValueRegex).MatchString(r.header.Get(e.Header.Name)):
		return fmt.Errorf("header %s is %q", e.Header.Name, r.header.Get(e.Header.Name))
	case e.SetCookie != nil && len(r.cookies()) == 0:
		return fmt.Errorf("no cookie is set")
	case e.SetCookie != nil:
		return e.SetCookie.check(r.cookies()[0])
	}
	return nil
}

func (e *expectedCookie) check(c *http.Cookie) error {
	has := func(attribute string) bool { return strings.Contains(strings.ToLower(c.Raw), "; "+attribute) }
	switch {
	case e.Name != "" && c.Name != e.Name,
		!regexp.MustCompile(e.NameRegex).MatchString(c.Name),
		!regexp.MustCompile(e.ValueRegex).MatchString(c.Value),
		slices.ContainsFunc(e.NoAttr, has),
		len(e.AnyAttr) > 0 && !slices.ContainsFunc(e.AnyAttr, has),
		e.MaxAge != 0 && c.MaxAge != e.MaxAge,
		e.Path != "" && c.Path != e.Path:
		return fmt.Errorf("cookie %q, want %+v", c.Raw, *e)
	}
	return nil
}

// tally counts who answered. The zero value is ready.
type tally struct {
	mu   sync.Mutex
	pods map[string]int
}

func (n *tally) add(r *reply) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.pods == nil {
		n.pods = map[string]int{}
	}
	n.pods[r.pod]++
}

// check compares the counts with what a step wants of pools.
func (n *tally) check(st *step) error {
	requests, members := map[string]int{}, map[string]int{}
	for pod, count := range n.pods {
		pool, _, _ := strings.Cut(pod, "-")
		requests[pool] += count
		members[pool]++
	}
	if st.Distribution != nil && !maps.Equal(requests, st.Distribution) {
		return fmt.Errorf("pools got %v, want %v", requests, st.Distribution)
	}
	if st.PodsSeen != nil && !maps.Equal(members, st.PodsSeen) {
		return fmt.Errorf("%v answered", n.pods)
	}
	return nil
}
