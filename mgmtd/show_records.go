package mgmtd

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"bigpipe/grammar"
	"bigpipe/grammar/eval"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

// persistDump prints the records that a filter chooses.
func (e *execution) persistDump(ctx context.Context, op eval.Operation) error {
	if !e.json() {
		return e.recordTable(ctx, op.Filter)
	}
	l := jsonList{w: e.out}
	if err := l.begin("records"); err != nil {
		return err
	}
	if err := e.recordList(ctx, &l, op.Filter); err != nil {
		return err
	}
	return l.end()
}

// recordList adds records to a JSON list as they come.
func (e *execution) recordList(ctx context.Context, l *jsonList, f *pb.RecordFilter) error {
	failed, err := e.server.records(ctx, f, func(records []*pb.Record) error {
		for _, r := range records {
			if err := l.add(recordOf(r)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return e.queried(failed)
}

// recordTable prints records as they come.
func (e *execution) recordTable(ctx context.Context, f *pb.RecordFilter) error {
	t, n := table{w: e.out}, e.naming()
	several := len(e.server.pushers) > 1
	head := []string{"POOL", "MODE", "KEY", "VIRTUAL", "NODE", "AGE", "EXPIRES", "CONNECTIONS"}
	if several {
		head = append(head, "DATAPLANE")
	}
	if err := t.row(head...); err != nil {
		return err
	}
	failed, err := e.server.records(ctx, f, func(records []*pb.Record) error {
		for _, r := range records {
			cells := []string{
				r.GetPool(), pb.EnumWord(r.GetMode()), r.GetKey(), scope(n, r.GetVirtual()), n.address(r.GetNode()),
				strconv.FormatUint(r.GetAgeSeconds(), 10), expiry(r), strconv.FormatUint(uint64(r.GetConnections()), 10),
			}
			if several {
				cells = append(cells, r.GetDataplane())
			}
			if err := t.row(cells...); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := e.queried(failed); err != nil || e.refused {
		return err
	}
	return t.flush()
}

// scope is what shares a record: a virtual server, all of an address, or all.
func scope(n naming, virtual string) string {
	if virtual == "" {
		return "*"
	}
	return n.address(virtual)
}

func expiry(r *pb.Record) string {
	if r.ExpiresInSeconds == nil {
		return "never"
	}
	return strconv.FormatUint(r.GetExpiresInSeconds(), 10)
}

// persistShow prints the persistence of pools as it is in effect, volatile timeouts of ports included, and their records.
func (e *execution) persistShow(ctx context.Context, op eval.Operation) error {
	w, _ := e.server.publisher.watch()
	_, pool := pb.SplitKey(op.Key)
	f := &pb.RecordFilter{}
	if pool != "" {
		f.Pool = &pool
	}
	l := jsonList{w: e.out}
	if e.json() {
		if err := l.begin("pools"); err != nil {
			return err
		}
	}
	var err error
	poolsOf(w.view, op.Key, func(p *pb.Pool) bool {
		p = persistence(p)
		if e.json() {
			err = l.add(message{Message: p.ProtoReflect(), words: true, skip: map[protoName]bool{"meta": true, "members": true}})
		} else {
			_, err = e.out.Write(e.format(&pb.Object{Kind: &pb.Object_Pool{Pool: p}}))
		}
		return err == nil
	})
	if err != nil {
		return err
	}
	if !e.json() {
		return e.recordTable(ctx, f)
	}
	if err := l.next("records"); err != nil {
		return err
	}
	if err := e.recordList(ctx, &l, f); err != nil {
		return err
	}
	return l.end()
}

// persistence is a pool without members and with its mode.
func persistence(p *pb.Pool) *pb.Pool {
	c := proto.CloneOf(p)
	c.Meta, c.Members = nil, nil
	if c.PersistMode == nil {
		c.PersistMode = pb.PersistMode_PERSIST_MODE_NONE.Enum()
	}
	return c
}

// poolsOf calls fn with the pool of a key, or with all.
func poolsOf(v config.View, key string, fn func(*pb.Pool) bool) {
	if kind, _ := pb.SplitKey(key); kind == "pool" && key != "pool/" {
		if p := v.Get(key).GetPool(); p != nil {
			fn(p)
		}
		return
	}
	v.Range("pool", func(o *pb.Object) bool { return fn(o.GetPool()) })
}

// format writes objects in the dialect that was asked for.
func (e *execution) format(objects ...*pb.Object) []byte {
	return e.formatWith(grammar.FormatOptions{}, objects...)
}

func (e *execution) formatWith(o grammar.FormatOptions, objects ...*pb.Object) []byte {
	o.Dialect = 4
	if e.header.Dialect != nil {
		o.Dialect = int(e.header.GetDialect())
	}
	return grammar.Format(objects, o)
}

// connDump prints connections in the three columns of old; JSON has the rest.
func (e *execution) connDump(ctx context.Context, op eval.Operation) error {
	l, n := jsonList{w: e.out}, e.naming()
	const line = "%-22s %-22s %s\n"
	var err error
	if e.json() {
		err = l.begin("connections")
	} else {
		_, err = fmt.Fprintf(e.out, line, "from", "virtual", "node")
	}
	if err != nil {
		return err
	}
	failed, err := e.server.connections(ctx, op.Connections, func(list []*pb.Connection) error {
		for _, c := range list {
			if e.json() {
				err = l.add(connectionOf(c))
			} else {
				_, err = fmt.Fprintf(e.out, line, c.GetClient(), n.address(c.GetVirtual()), n.address(c.GetNode()))
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := e.queried(failed); err != nil || !e.json() {
		return err
	}
	return l.end()
}

// persistExplain prints which member a connection would get, and why.
func (e *execution) persistExplain(ctx context.Context, op eval.Operation) error {
	replies, failed := e.server.explain(ctx, op.Explain)
	if err := e.queried(failed); err != nil || e.refused {
		return err
	}
	if e.json() {
		type view struct {
			Member    string   `json:"member"`
			Outcome   string   `json:"outcome"`
			Steps     []string `json:"steps"`
			Dataplane string   `json:"dataplane"`
		}
		views := []view{}
		for _, r := range replies {
			views = append(views, view{r.GetMember(), r.GetOutcome(), append([]string{}, r.GetSteps()...), r.GetDataplane()})
		}
		return writeJSON(e.out, map[string]any{"replies": views})
	}
	for _, r := range replies {
		var b strings.Builder
		if len(e.server.pushers) > 1 {
			fmt.Fprintf(&b, "DATAPLANE %s\n", r.GetDataplane())
		}
		for i, step := range r.GetSteps() {
			fmt.Fprintf(&b, "%2d  %s\n", i+1, step)
		}
		member := "no member"
		if r.GetMember() != "" {
			member = "member " + e.naming().address(r.GetMember())
		}
		fmt.Fprintf(&b, "->  %s\n", member)
		if _, err := e.out.Write([]byte(b.String())); err != nil {
			return err
		}
	}
	return nil
}

// persistForecast prints who is still bound to a node.
func (e *execution) persistForecast(ctx context.Context, op eval.Operation) error {
	node := words(op.Words)
	if _, name := pb.SplitKey(op.Key); node == "" {
		node = name
	}
	members, failed := e.server.forecast(ctx, &pb.ForecastRequest{Node: node})
	if err := e.queried(failed); err != nil || e.refused {
		return err
	}
	if e.json() {
		views := []forecastView{}
		for _, m := range members {
			views = append(views, forecastOf(m))
		}
		return writeJSON(e.out, map[string]any{"members": views})
	}
	t, n := table{w: e.out}, e.naming()
	if err := t.row("POOL", "NODE", "CLIENTS", "LAST SEEN", "EMPTY IN", "CONNECTIONS", "DATAPLANE"); err != nil {
		return err
	}
	for _, m := range members {
		clients := strconv.FormatUint(m.GetClients(), 10)
		if !countsClients(m) {
			clients = "by " + pb.EnumWord(m.GetPersistMode())
		}
		err := t.row(m.GetPool(), n.address(m.GetNode()), clients, optional(m.LastSeenSeconds, "-"), emptyIn(m), strconv.FormatUint(uint64(m.GetConnections()), 10), m.GetDataplane())
		if err != nil {
			return err
		}
	}
	return t.flush()
}

// forecastOf is the JSON of one member. How many clients it has is null where they hold their member themselves; when it is empty
// is null there too, and where records never end.
func forecastOf(m *pb.ForecastMember) forecastView {
	v := forecastView{
		Pool: m.GetPool(), Node: m.GetNode(), Mode: pb.EnumWord(max(m.GetPersistMode(), pb.PersistMode_PERSIST_MODE_NONE)),
		LastSeen: m.LastSeenSeconds, EmptyIn: m.EmptyInSeconds, Connections: m.GetConnections(), Dataplane: m.GetDataplane(),
	}
	if countsClients(m) {
		v.Clients = new(m.GetClients())
	}
	return v
}

// emptyIn says when nobody is bound to a member any more.
func emptyIn(m *pb.ForecastMember) string {
	switch {
	case !countsClients(m):
		return notKnown
	case m.GetClients() == 0:
		return "now"
	}
	return optional(m.EmptyInSeconds, "never")
}

func optional(n *uint64, absent string) string {
	if n == nil {
		return absent
	}
	return strconv.FormatUint(*n, 10)
}
