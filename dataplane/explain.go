package dataplane

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"bigpipe/dataplane/forward"
	"bigpipe/dataplane/http1"
	"bigpipe/dataplane/pool"
	"bigpipe/dataplane/tlshello"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

// ErrUnknown means that there is no object of a name.
var ErrUnknown = errors.New("not found")

// Explain tells which member a connection would get now, and why. Nothing changes by it.
func (e *Engine) Explain(req *pb.ExplainRequest) (*pb.ExplainReply, error) {
	rt := e.running.Load()
	p := rt.pools[req.GetPool()]
	if p == nil {
		return nil, fmt.Errorf("pool %s: %w", req.GetPool(), ErrUnknown)
	}
	in, err := rt.explainInput(req)
	if err != nil {
		return nil, err
	}
	var steps []string
	if req.Virtual == nil && in.Virtual.IsValid() {
		steps = append(steps, fmt.Sprintf("virtual server %s is the first that can reach pool %s", in.Virtual, p.Name))
	}
	closed, why := rt.explainVirtual(in.Virtual, p.Name)
	reply := &pb.ExplainReply{Steps: append(steps, why...)}
	if closed {
		return reply, nil
	}
	x := p.Explain(in)
	reply.Steps = append(reply.Steps, x.Steps...)
	if x.Member != nil {
		reply.Member = x.Member.Addr.String()
	}
	if x.Outcome != pool.OutcomeOff {
		reply.Outcome = x.Outcome.String()
	}
	return reply, nil
}

// explainVirtual says what keeps connections of a virtual server from a pool. Closed: it takes none.
func (r *runtime) explainVirtual(addr netip.AddrPort, pool string) (closed bool, steps []string) {
	if !addr.IsValid() {
		return false, []string{"no virtual server reaches pool " + pool}
	}
	v := r.virtuals[addr.String()]
	if v == nil {
		return true, []string{fmt.Sprintf("there is no virtual server %s", addr)}
	}
	vs := config.FindVirtual(r.view, v.address)
	direct, byRule := config.PoolsOf(r.view, vs)
	if !slices.Contains(direct, pool) && !slices.Contains(byRule, pool) {
		steps = append(steps, fmt.Sprintf("virtual server %s does not use pool %s", addr, pool))
	}
	reason := v.reason()
	if enabled, why := config.VirtualEnabled(r.view, vs); !enabled {
		reason = why
	}
	if reason != "" {
		return true, append(steps, fmt.Sprintf("virtual server %s takes no connections: %s", addr, reason))
	}
	return false, steps
}

func (r *runtime) explainInput(req *pb.ExplainRequest) (*pool.Input, error) {
	client, err := parseNode(req.GetClient())
	if err != nil {
		return nil, fmt.Errorf("client %q is not an address", req.GetClient())
	}
	in := &pool.Input{Client: client}
	if req.Virtual != nil {
		if in.Virtual, err = netip.ParseAddrPort(req.GetVirtual()); err != nil {
			return nil, fmt.Errorf("virtual server %q is not an address and port", req.GetVirtual())
		}
		in.Virtual = unmapped(in.Virtual)
	} else {
		in.Virtual = r.firstVirtual(req.GetPool())
	}
	if req.Destination != nil {
		if in.Destination, err = parseNode(req.GetDestination()); err != nil {
			return nil, fmt.Errorf("destination %q is not an address", req.GetDestination())
		}
	}
	q, err := r.explainRequest(req)
	if q != nil {
		in.Request = &q.Head
	}
	if q != nil && req.Path != nil {
		in.Target = q.Target()
	}
	if req.Session != nil && err == nil {
		if in.Hello, err = tlshello.Recall(req.GetSession()); err != nil {
			return nil, err
		}
	}
	return in, err
}

// firstVirtual is the first virtual server that can reach a pool: directly, else by a rule.
func (r *runtime) firstVirtual(name string) netip.AddrPort {
	direct, byRule := config.VirtualsOf(r.view, name)
	for _, vs := range append(direct, byRule...) {
		if addr, err := netip.ParseAddrPort(vs.GetAddress()); err == nil {
			return unmapped(addr)
		}
	}
	return netip.AddrPort{}
}

// explainRequest makes a request with a path, a cookie and a token, those of them that there are; nil without any.
func (r *runtime) explainRequest(req *pb.ExplainRequest) (*http1.Request, error) {
	path := cmp.Or(req.GetPath(), "/")
	if strings.ContainsAny(path, " \r\n") {
		return nil, fmt.Errorf("the path %q holds a blank", path)
	}
	head := []byte("GET " + path + " HTTP/1.1\r\nHost: explain\r\n")
	line := func(what, name, value string) error {
		if strings.ContainsAny(value, "\r\n\x00") {
			return fmt.Errorf("the %s is not a header's value", what)
		}
		head = http1.AppendField(head, name, value)
		return nil
	}
	var faults []error
	if req.Cookie != nil {
		faults = append(faults, line("cookie", "Cookie", req.GetCookie()))
	}
	if req.Token != nil {
		switch p := config.FindPool(r.view, req.GetPool()); {
		case config.PersistModeOf(p) != pb.PersistMode_PERSIST_MODE_TOKEN:
			faults = append(faults, fmt.Errorf("pool %s has no tokens", req.GetPool()))
		case p.GetTokenType() == pb.TokenType_TOKEN_TYPE_HEADER:
			faults = append(faults, line("token", config.TokenNameOf(p), req.GetToken()))
		default:
			faults = append(faults, line("token", "Cookie", config.TokenNameOf(p)+"="+req.GetToken()))
		}
	}
	if len(faults) == 0 && req.Path == nil {
		return nil, nil
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	q := &http1.Request{}
	if n, err := q.Parse(http1.AppendEnd(head)); err != nil || n == 0 {
		return nil, fmt.Errorf("no request can have such a path, cookie or token: %w", cmp.Or(err, errors.New("incomplete")))
	}
	return q, nil
}

// Connections lists the open connections that a request chooses. The error says what is wrong with it.
func (e *Engine) Connections(req *pb.ListConnectionsRequest) (iter.Seq[*pb.Connection], error) {
	client, err := addressFilter("client", req.Client)
	if err != nil {
		return nil, err
	}
	virtual, err := addressFilter("virtual server", req.Virtual)
	if err != nil {
		return nil, err
	}
	node, err := addressFilter("node", req.Node)
	if err != nil {
		return nil, err
	}
	found := func(yield func(*pb.Connection) bool) {
		e.connections.Range(func(c forward.Connection) bool {
			if !client(c.Client) || !virtual(c.Virtual) || !node(c.Node) {
				return true
			}
			return yield(connectionMessage(c))
		})
	}
	return sortedIfFew(found, compareConnections), nil
}

func compareConnections(a, b *pb.Connection) int {
	return cmp.Or(compareAddresses(a.GetClient(), b.GetClient()), compareAddresses(a.GetVirtual(), b.GetVirtual()))
}

func connectionMessage(c forward.Connection) *pb.Connection {
	m := &pb.Connection{
		Client: c.Client.String(), Virtual: c.Virtual.String(), Protocol: "tcp",
		AgeSeconds: wholeSeconds(c.Age), IdleSeconds: wholeSeconds(c.Idle),
	}
	if c.UDP {
		m.Protocol = "udp"
	}
	if c.Node.IsValid() {
		m.Node = c.Node.String()
	}
	return m
}

// addressFilter matches an address, an address and port, or a network; nil matches all.
func addressFilter(what string, text *string) (func(netip.AddrPort) bool, error) {
	if text == nil {
		return func(netip.AddrPort) bool { return true }, nil
	}
	if network, err := netip.ParsePrefix(*text); err == nil {
		return func(a netip.AddrPort) bool { return network.Contains(a.Addr().Unmap()) }, nil
	}
	want, err := parseNode(*text)
	if err != nil {
		return nil, fmt.Errorf("%s %q is not an address, an address and port, or a network", what, *text)
	}
	return func(a netip.AddrPort) bool {
		return a.Addr().Unmap() == want.Addr() && (want.Port() == 0 || want.Port() == a.Port())
	}, nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
