package mgmtd

import (
	"iter"
	"strconv"
	"strings"

	"bigpipe/grammar"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

// The views are what show and dump print as JSON; the text is made of them too.

// counters are the connections of one thing.
type counters struct {
	Current uint64 `json:"current"`
	Max     uint64 `json:"max"`
	Total   uint64 `json:"total"`
	Limit   uint64 `json:"limit"`
	// unknown is set when the dataplane that counts them did not answer.
	unknown bool
}

// add sums; the limit is that of the sum's own thing.
func (c *counters) add(o counters) {
	c.Current += o.Current
	c.Max += o.Max
	c.Total += o.Total
}

// traffic is bytes, seen from the clients: in is what they sent.
type traffic struct {
	In  uint64 `json:"in"`
	Out uint64 `json:"out"`
	// unknown is as that of counters.
	unknown bool
}

func (t *traffic) add(o traffic) {
	t.In += o.In
	t.Out += o.Out
}

type poolView struct {
	Name        string         `json:"name"`
	LbMode      string         `json:"lb_mode"`
	Members     []memberView   `json:"members"`
	Records     uint64         `json:"records"`
	Persistence *persistCounts `json:"persistence,omitempty"`
	// LargestKey is absent where too few connections had a record.
	LargestKey *largestKey `json:"largest_key,omitempty"`
	// mode is the word of how the pool persists; "none" where it does not.
	mode string
}

// largestKey is the key that most of a pool's latest connections had; it is "" if its record is gone.
type largestKey struct {
	Key   string  `json:"key"`
	Share float64 `json:"share"` // 0 to 1
}

func largestKeyOf(p *pb.PoolStatistics) *largestKey {
	if p.GetLargestKeyShare() == 0 {
		return nil
	}
	return &largestKey{p.GetLargestKey(), p.GetLargestKeyShare()}
}

type memberView struct {
	Address     string   `json:"address"`
	State       string   `json:"state"`
	Enabled     bool     `json:"enabled"`
	Connections counters `json:"connections"`
	Bytes       traffic  `json:"bytes"`
	Requests    uint64   `json:"requests"`
	Ratio       uint32   `json:"ratio"`
	Priority    uint32   `json:"priority"`
	Dataplane   string   `json:"dataplane,omitempty"`
}

// persistCounts are the outcomes of a pool's persistence, summed over the dataplanes; all of them, also those that are zero.
type persistCounts struct{ outcomes *pb.PersistOutcomes }

// MarshalJSON implements json.Marshaler.
func (c *persistCounts) MarshalJSON() ([]byte, error) {
	b := []byte("{")
	for name, n := range c.each() {
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(strconv.AppendQuote(b, name), ':')
		b = strconv.AppendUint(b, n, 10)
	}
	return append(b, '}'), nil
}

// each lists the outcomes by their words.
func (c *persistCounts) each() iter.Seq2[string, uint64] {
	return func(yield func(string, uint64) bool) {
		m := c.outcomes.ProtoReflect()
		fields := m.Descriptor().Fields()
		for i := range fields.Len() {
			if !yield(string(fields.Get(i).Name()), m.Get(fields.Get(i)).Uint()) {
				return
			}
		}
	}
}

type virtualView struct {
	Address  string `json:"address"`
	Protocol string `json:"protocol"`
	// Why says what makes it HTTP.
	Why         string         `json:"protocol_reason"`
	Pool        string         `json:"pool"`
	Pools       []weightedView `json:"pools,omitempty"`
	Rule        string         `json:"rule"`
	Enabled     bool           `json:"enabled"`
	InEffect    bool           `json:"in_effect"`
	Reason      string         `json:"reason"`
	Connections counters       `json:"connections"`
	Bytes       traffic        `json:"bytes"`
	Requests    uint64         `json:"requests"`
	Dataplane   string         `json:"dataplane,omitempty"`
}

// notKnown is the text of what a dataplane that did not answer would tell.
const notKnown = "-"

type weightedView struct {
	Pool   string `json:"pool"`
	Weight uint32 `json:"weight"`
}

type nodeView struct {
	Address     string     `json:"address"`
	State       string     `json:"state"`
	Enabled     bool       `json:"enabled"`
	Connections counters   `json:"connections"`
	Bytes       traffic    `json:"bytes"`
	Ports       []portView `json:"ports,omitempty"`
	Dataplane   string     `json:"dataplane,omitempty"`
}

// portView is a service on a node; its counters are those of the members with its address.
type portView struct {
	Port        uint32   `json:"port"`
	State       string   `json:"state"`
	Enabled     bool     `json:"enabled"`
	Connections counters `json:"connections"`
	Bytes       traffic  `json:"bytes"`
}

type recordView struct {
	Pool        string  `json:"pool"`
	Mode        string  `json:"mode"`
	Key         string  `json:"key"`
	Virtual     string  `json:"virtual"`
	Node        string  `json:"node"`
	Age         uint64  `json:"age_seconds"`
	Expires     *uint64 `json:"expires_in_seconds"`
	Connections uint32  `json:"connections"`
	Dataplane   string  `json:"dataplane"`
}

type forecastView struct {
	Pool        string  `json:"pool"`
	Node        string  `json:"node"`
	Mode        string  `json:"persist_mode"`
	Clients     *uint64 `json:"clients"`
	LastSeen    *uint64 `json:"last_seen_seconds"`
	EmptyIn     *uint64 `json:"empty_in_seconds"`
	Connections uint32  `json:"connections"`
	Dataplane   string  `json:"dataplane"`
}

type connectionView struct {
	Client    string `json:"client"`
	Virtual   string `json:"virtual"`
	Node      string `json:"node"`
	Protocol  string `json:"protocol"`
	Age       uint64 `json:"age_seconds"`
	Idle      uint64 `json:"idle_seconds"`
	Dataplane string `json:"dataplane"`
}

func countersOf(c *pb.ConnectionCounters) counters {
	return counters{Current: c.GetCurrent(), Max: c.GetMax(), Total: c.GetTotal(), Limit: c.GetLimit()}
}

func trafficOf(b *pb.ByteCounters) traffic { return traffic{In: b.GetIn(), Out: b.GetOut()} }

func recordOf(r *pb.Record) recordView {
	return recordView{
		Pool: r.GetPool(), Mode: pb.EnumWord(r.GetMode()), Key: r.GetKey(), Virtual: r.GetVirtual(), Node: r.GetNode(),
		Age: r.GetAgeSeconds(), Expires: r.ExpiresInSeconds, Connections: r.GetConnections(), Dataplane: r.GetDataplane(),
	}
}

func connectionOf(c *pb.Connection) connectionView {
	return connectionView{
		Client: c.GetClient(), Virtual: c.GetVirtual(), Node: c.GetNode(), Protocol: c.GetProtocol(),
		Age: c.GetAgeSeconds(), Idle: c.GetIdleSeconds(), Dataplane: c.GetDataplane(),
	}
}

func persistCountsOf(o *pb.PersistOutcomes) *persistCounts {
	if o == nil {
		return nil
	}
	return &persistCounts{o}
}

// stateWord is the word of a state that a dataplane reports, else that of the operator's settings.
func stateWord(v config.View, address string, reported pb.MemberState) string {
	if reported == pb.MemberState_MEMBER_STATE_UNSPECIFIED {
		reported = config.MemberState(v, address).Word
	}
	return pb.EnumWord(reported)
}

// naming writes addresses for people.
type naming struct {
	// numeric keeps numbers where services have names (-n).
	numeric bool
}

// address writes "10.0.0.1:80" as 10.0.0.1:http.
func (n naming) address(text string) string {
	if n.numeric {
		return text
	}
	host, port, ok := config.SplitAddress(text)
	if !ok {
		return text
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return host + ":" + grammar.ServiceName(port)
}

// port writes a port by its name.
func (n naming) port(port uint32) string {
	if n.numeric || port > 65535 {
		return strconv.FormatUint(uint64(port), 10)
	}
	return grammar.ServiceName(uint16(port))
}
