package mgmtd

import (
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

const showSite = `# the shop
pool web {
   lb_mode ratio_member
   persist_mode simple
   simple_timeout 300
   simple_mask 255.255.255.0
   member 10.1.1.1:80 ratio 3
   member 10.1.1.2:80 limit 20
}
pool shop {
   persist_mode cookie
   cookie_mode insert
   cookie_expiration 10d
   member 10.1.1.1:443
}
virtual 10.0.0.1:80 { use pool web }
virtual 10.0.0.2:443 { use pool shop weight 70 pool web weight 30 }
node 10.1.1.2 disable
`

// showAdmin has the site and a dataplane that has counted something.
func showAdmin(t *testing.T, dataplanes int) *admin {
	t.Helper()
	_, a := showAdminWith(t, Config{}, dataplanes)
	return a
}

func showAdminWith(t *testing.T, c Config, dataplanes int) ([]*fakeDataplane, *admin) {
	t.Helper()
	var all []*fakeDataplane
	for range dataplanes {
		d := startFake(t)
		d.records = []*pb.Record{
			{
				Pool: "web", Mode: pb.PersistMode_PERSIST_MODE_SIMPLE, Key: "127.0.0.0", Virtual: "10.0.0.1:80", Node: "10.1.1.1:80",
				AgeSeconds: 3, ExpiresInSeconds: proto.Uint64(117), Connections: 1,
			},
			{Pool: "shop", Mode: pb.PersistMode_PERSIST_MODE_STICKY, Key: "127.0.0.9", Virtual: "", Node: "10.1.1.1:443", AgeSeconds: 5},
		}
		d.links = []*pb.Connection{{Client: "127.0.0.9:4000", Virtual: "10.0.0.1:80", Node: "10.1.1.1:80", Protocol: "tcp", AgeSeconds: 1}}
		d.stats = &pb.StatisticsReply{
			Virtuals: []*pb.VirtualStatistics{
				{Address: "10.0.0.1:80", Protocol: "tcp", InEffect: true, Connections: &pb.ConnectionCounters{Current: 1, Max: 2, Total: 3}, Bytes: &pb.ByteCounters{In: 100, Out: 200}},
				{Address: "10.0.0.2:443", Protocol: "http", Reason: "address not available"},
			},
			Pools: []*pb.PoolStatistics{{Name: "web", Records: 1, Persistence: &pb.PersistOutcomes{None: 1, Valid: 2, Bound: 1}, Members: []*pb.MemberStatistics{
				{Address: "10.1.1.1:80", State: pb.MemberState_MEMBER_STATE_UNCHECKED, Connections: &pb.ConnectionCounters{Current: 1, Max: 2, Total: 3}, Bytes: &pb.ByteCounters{In: 100, Out: 200}},
				{Address: "10.1.1.2:80", State: pb.MemberState_MEMBER_STATE_ADDRESS_DISABLED},
			}}},
			Nodes: []*pb.NodeStatistics{
				{Address: "10.1.1.1", State: pb.MemberState_MEMBER_STATE_UNCHECKED, Connections: &pb.ConnectionCounters{Current: 1, Max: 2, Total: 3}, Bytes: &pb.ByteCounters{In: 100, Out: 200}},
				{Address: "10.1.1.2", State: pb.MemberState_MEMBER_STATE_DISABLED},
			},
			Unit: &pb.UnitStatistics{UptimeSeconds: 60, Records: 2, Counters: map[string]uint64{"no_nodes": 4}},
		}
		all = append(all, d)
	}
	a := startAdminWith(t, c, "", all...)
	a.mustLoad(showSite)
	return all, a
}

func TestShow_text(t *testing.T) {
	a := showAdmin(t, 1)
	tests := map[string]string{
		"pool web show": `POOL web    LB_MODE ratio_member
|     (cur, max, limit, tot) = (1, 2, 0, 3)
|     (pckts,bits) in = (-, 800), out = (-, 1600)
|     persist_mode simple, records 1, none 1, valid 2, bound 1
+-    MEMBER 10.1.1.1:http  UNCHECKED  ratio 3
      (cur, max, limit, tot) = (1, 2, 0, 3)
      (pckts,bits) in = (-, 800), out = (-, 1600)
+-    MEMBER 10.1.1.2:http  ADDRESS DISABLED
      (cur, max, limit, tot) = (0, 0, 20, 0)
      (pckts,bits) in = (-, 0), out = (-, 0)
`,
		"virtual 10.0.0.1:80 show": `VIRTUAL 10.0.0.1:http    ENABLED
|     use pool web
+-    TCP  IN EFFECT
      (cur, max, limit, tot) = (1, 2, 0, 3)
      (pckts,bits) in = (-, 800), out = (-, 1600)
`,
		"vip 10.0.0.2:443 show": `VIRTUAL 10.0.0.2:https    ENABLED
|     use pool shop weight 70 pool web weight 30
+-    HTTP (pool shop uses persist_mode cookie)  NOT IN EFFECT: address not available
      (cur, max, limit, tot) = (0, 0, 0, 0)
      (pckts,bits) in = (-, 0), out = (-, 0)
`,
		"node 10.1.1.1 show": `NODE 10.1.1.1    UNCHECKED
|     (cur, max, limit, tot) = (1, 2, 0, 3)
|     (pckts,bits) in = (-, 800), out = (-, 1600)
+-    PORT http  UNCHECKED
      (cur, max, limit, tot) = (1, 2, 0, 3)
      (pckts,bits) in = (-, 800), out = (-, 1600)
+-    PORT https  UNCHECKED
      (cur, max, limit, tot) = (0, 0, 0, 0)
      (pckts,bits) in = (-, 0), out = (-, 0)
`,
		"node 10.1.1.2:80 show": `NODE 10.1.1.2    ADDRESS DISABLED
|     (cur, max, limit, tot) = (0, 0, 0, 0)
|     (pckts,bits) in = (-, 0), out = (-, 0)
+-    PORT http  ADDRESS DISABLED
      (cur, max, limit, tot) = (0, 0, 0, 0)
      (pckts,bits) in = (-, 0), out = (-, 0)
`,
		"pool persist dump": `POOL  MODE    KEY        VIRTUAL        NODE            AGE  EXPIRES  CONNECTIONS
web   simple  127.0.0.0  10.0.0.1:http  10.1.1.1:http   3    117      1
shop  sticky  127.0.0.9  *              10.1.1.1:https  5    never    0
`,
		"pool web persist show": `pool web {
   lb_mode ratio_member
   persist_mode simple
   simple_timeout 300
   simple_mask 255.255.255.0
}
POOL  MODE    KEY        VIRTUAL        NODE           AGE  EXPIRES  CONNECTIONS
web   simple  127.0.0.0  10.0.0.1:http  10.1.1.1:http  3    117      1
`,
		"conn dump": `from                   virtual                node
127.0.0.9:4000         10.0.0.1:http          10.1.1.1:http
`,
		"pool web lb_mode show":  "lb_mode ratio_member\n",
		"pool shop lb_mode show": "lb_mode round_robin\n",
		"sysctl -a": `bigip.maint-mode-off = 1
bigip.persist_map_proxies = 1
bigip.persist_on_any_port_same_vip = 0
bigip.persist_on_any_vip = 0
bigip.persist_time_used_as_limit = 1
`,
		"global persist_across_services show": "global persist_across_services disable\n",
		"pool web persist explain client 127.0.0.9": ` 1  pool web
 2  no record of 127.0.0.9
->  member 10.1.1.1:http
`,
		"persist forecast node 10.1.1.1:80": `POOL  NODE           CLIENTS  LAST SEEN  EMPTY IN  CONNECTIONS  DATAPLANE
web   10.1.1.1:http  3        9          never     1            dp0
`,
		"pool web persist clear": "2 cleared\n",
		"pool web stats reset":   "",
		"version":                "mgmtd test\n",
	}
	for command, want := range tests {
		t.Run(command, func(t *testing.T) {
			if got := a.must(command); got != want {
				t.Errorf("got\n%s", got)
			}
		})
	}
}

// Where all clients come through one proxy, one key is nearly all there is; of several dataplanes that of the one that has it most is told.
func TestShow_largest_key(t *testing.T) {
	all := &pb.StatisticsReply{}
	for name, p := range map[string]*pb.PoolStatistics{
		"a": {Name: "web", LargestKey: "10.9.9.9", LargestKeyShare: 0.25},
		"b": {Name: "web", LargestKey: "10.9.9.1", LargestKeyShare: 0.996},
		"c": {Name: "web"},
	} {
		p.Persistence = &pb.PersistOutcomes{}
		mergeStatistics(all, &pb.StatisticsReply{Pools: []*pb.PoolStatistics{p}}, name)
	}
	p := all.GetPools()[0]
	view := poolView{Persistence: persistCountsOf(p.GetPersistence()), LargestKey: largestKeyOf(p), mode: "simple"}
	t.Run("pain-83", func(t *testing.T) {
		if got, want := persistLine(view), "persist_mode simple, records 0, largest key 10.9.9.1 100 %"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if got, err := json.Marshal(view); err != nil || !strings.Contains(string(got), `"largest_key":{"key":"10.9.9.1","share":0.996}`) {
			t.Errorf("%s %v", got, err)
		}
	})
	view.LargestKey = largestKeyOf(&pb.PoolStatistics{LargestKeyShare: 0.5})
	if got := persistLine(view); !strings.HasSuffix(got, ", largest key (gone) 50 %") {
		t.Errorf("%q", got)
	}
	view.LargestKey = largestKeyOf(&pb.PoolStatistics{})
	if got, err := json.Marshal(view); err != nil || strings.Contains(string(got)+persistLine(view), "largest") {
		t.Errorf("of too few connections: %s %s %v", got, persistLine(view), err)
	}
}

func TestShow_numeric(t *testing.T) {
	a := showAdmin(t, 1)
	r := a.execute(&pb.ExecuteHeader{Mode: pb.ExecuteMode_EXECUTE_MODE_COMMAND, Numeric: true}, "conn dump")
	if want := "127.0.0.9:4000         10.0.0.1:80            10.1.1.1:80\n"; !strings.HasSuffix(r.out, want) {
		t.Errorf("got\n%s", r.out)
	}
}

func TestShow_json(t *testing.T) {
	a := showAdmin(t, 1)
	tests := map[string]string{
		"pool web persist dump": `{"records":[{"pool":"web","mode":"simple","key":"127.0.0.0","virtual":"10.0.0.1:80","node":"10.1.1.1:80",` +
			`"age_seconds":3,"expires_in_seconds":117,"connections":1,"dataplane":"dp0"}]}`,
		"pool shop persist dump": `{"records":[{"pool":"shop","mode":"sticky","key":"127.0.0.9","virtual":"","node":"10.1.1.1:443",` +
			`"age_seconds":5,"expires_in_seconds":null,"connections":0,"dataplane":"dp0"}]}`,
		"pool shop persist show": `{"pools":[{"name":"shop","persist_mode":"cookie","cookie_mode":"insert","cookie_expiration":864000}],` +
			`"records":[{"pool":"shop","mode":"sticky","key":"127.0.0.9","virtual":"","node":"10.1.1.1:443",` +
			`"age_seconds":5,"expires_in_seconds":null,"connections":0,"dataplane":"dp0"}]}`,
		"pool shop show": `{"pools":[{"name":"shop","lb_mode":"round_robin","members":[{"address":"10.1.1.1:443","state":"unchecked","enabled":true,` +
			`"connections":{"current":0,"max":0,"total":0,"limit":0},"bytes":{"in":0,"out":0},"requests":0,"ratio":1,"priority":0}],"records":0}]}`,
		"virtual 10.0.0.1:80 show": `{"virtual_servers":[{"address":"10.0.0.1:80","protocol":"tcp","protocol_reason":"","pool":"web","rule":"","enabled":true,` +
			`"in_effect":true,"reason":"","connections":{"current":1,"max":2,"total":3,"limit":0},"bytes":{"in":100,"out":200},"requests":0,"dataplane":"dp0"}]}`,
		"node 10.1.1.2 show": `{"nodes":[{"address":"10.1.1.2","state":"disabled","enabled":false,"connections":{"current":0,"max":0,"total":0,"limit":0},` +
			`"bytes":{"in":0,"out":0},"ports":[{"port":80,"state":"address_disabled","enabled":false,"connections":{"current":0,"max":0,"total":0,"limit":0},` +
			`"bytes":{"in":0,"out":0}}],"dataplane":"dp0"}]}`,
		"conn dump": `{"connections":[{"client":"127.0.0.9:4000","virtual":"10.0.0.1:80","node":"10.1.1.1:80","protocol":"tcp",` +
			`"age_seconds":1,"idle_seconds":0,"dataplane":"dp0"}]}`,
		"pool web lb_mode show":           `{"pools":[{"name":"web","lb_mode":"ratio_member"}]}`,
		"sysctl bigip.persist_on_any_vip": `{"sysctl":{"bigip.persist_on_any_vip":0}}`,
		"pool web persist clear":          `{"cleared":2}`,
		"pool web stats reset":            `{}`,
		"persist forecast node 10.1.1.1:80": `{"members":[{"pool":"web","node":"10.1.1.1:80","persist_mode":"simple","clients":3,"last_seen_seconds":9,` +
			`"empty_in_seconds":null,"connections":1,"dataplane":"dp0"}]}`,
		"pool web persist explain client 127.0.0.9": `{"replies":[{"member":"10.1.1.1:80","outcome":"none","steps":["pool web","no record of 127.0.0.9"],"dataplane":"dp0"}]}`,
		"version": `{"version":"test"}`,
	}
	for command, want := range tests {
		t.Run(command, func(t *testing.T) {
			r := a.json(command)
			if r.exit != 0 || r.out != want+"\n" {
				t.Errorf("exit %d\n%s%s", r.exit, r.out, r.errors())
			}
		})
	}
}

func TestShow_json_of_a_change(t *testing.T) {
	a := showAdmin(t, 1)
	if r := a.json("pool shop modify { lb_mode ratio }"); r.exit != 0 || r.out != `{"revision":2}`+"\n" {
		t.Errorf("exit %d\n%s%s", r.exit, r.out, r.errors())
	}
}

func TestShow_several_queries_are_one_document(t *testing.T) {
	a := showAdmin(t, 1)
	r := a.json("pool web lb_mode show\npool shop lb_mode show\n")
	var documents []map[string]any
	if err := json.Unmarshal([]byte(r.out), &documents); err != nil || len(documents) != 2 {
		t.Errorf("%v\n%s", err, r.out)
	}
}

func TestShow_every_document_is_valid(t *testing.T) {
	a := showAdmin(t, 2)
	for _, command := range []string{
		"pool show", "virtual show", "node show", "pool persist show", "pool persist dump", "persist dump", "conn dump", "list", "summary", "history",
		"sysctl -a", "global show", "virtual 10.0.0.1 show", "list pool", "list pool web", "list node",
	} {
		r := a.json(command)
		var document map[string]any
		if err := json.Unmarshal([]byte(r.out), &document); err != nil || r.exit != 0 || len(document) == 0 {
			t.Errorf("%s: %v\n%s%s", command, err, r.out, r.errors())
		}
	}
}

func TestShow_several_dataplanes(t *testing.T) {
	a := showAdmin(t, 2)
	if r := a.json("pool persist dump"); strings.Count(r.out, `"dataplane":"dp0"`) != 2 || strings.Count(r.out, `"dataplane":"dp1"`) != 2 {
		t.Errorf("records: %s", r.out)
	}
	if r := a.json("pool web show"); strings.Count(r.out, `"address":"10.1.1.1:80"`) != 2 || strings.Count(r.out, `"dataplane":"dp1"`) != 2 {
		t.Errorf("members: %s", r.out)
	}
	if out := a.must("pool web show"); !strings.Contains(out, "MEMBER 10.1.1.1:http  UNCHECKED  ratio 3  on dp1") {
		t.Errorf("members:\n%s", out)
	}
	if out := a.must("summary"); !strings.Contains(out, "no_nodes = 8\n") || !strings.Contains(out, "records = 4\n") || !strings.Contains(out, "uptime = 60\n") {
		t.Errorf("summary:\n%s", out)
	}
	if r := a.json("pool persist clear"); r.out != `{"cleared":4}`+"\n" {
		t.Errorf("clear: %s", r.out)
	}
}

func TestShow_dataplane_away(t *testing.T) {
	up, away := startFake(t), newFake(t)
	up.records = []*pb.Record{{Pool: "web", Mode: pb.PersistMode_PERSIST_MODE_SIMPLE, Key: "127.0.0.1"}}
	a := startAdmin(t, "", up, away)
	eventually(t, "attempts", func() bool { s, _ := a.server.pushers[1].current(); return s.err != "" })
	a.load(showSite)
	if r := a.command("pool persist dump"); r.exit != 0 || !strings.Contains(r.out, "127.0.0.1") || !strings.Contains(r.errors(), "warning: dataplane dp1: ") {
		t.Errorf("dump: exit %d\n%s%s", r.exit, r.out, r.errors())
	}
	if r := a.command("pool web persist clear"); r.exit != 3 || r.out != "1 cleared\n" || !strings.Contains(r.errors(), "dp1") {
		t.Errorf("clear: exit %d\n%s%s", r.exit, r.out, r.errors())
	}
	up.stop()
	for _, command := range []string{"pool persist dump", "conn dump", "pool web persist clear", "persist forecast node 10.1.1.1", "pool web persist explain client 127.0.0.1"} {
		if r := a.json(command); r.exit != 1 || !strings.Contains(r.errors(), "dp0") {
			t.Errorf("%s: exit %d\n%s%s", command, r.exit, r.out, r.errors())
		}
	}
	if r := a.command("pool web show"); r.exit != 0 || !strings.Contains(r.out, "MEMBER 10.1.1.2:http  ADDRESS DISABLED") {
		t.Errorf("show: exit %d\n%s%s", r.exit, r.out, r.errors())
	}
}

func TestList_text_reads_back(t *testing.T) {
	a := showAdmin(t, 1)
	for _, dialect := range []uint32{3, 4} {
		text := a.execute(&pb.ExecuteHeader{Mode: pb.ExecuteMode_EXECUTE_MODE_COMMAND, Dialect: &dialect}, "list").out
		before := a.store.Newest().Tree
		a.mustLoad(text)
		if changes := config.Diff(before, a.store.Newest().Tree); len(changes) != 0 {
			t.Errorf("dialect %d: %v\n%s", dialect, changes, text)
		}
		if !strings.Contains(text, "# the shop\n") {
			t.Errorf("dialect %d lost the comment:\n%s", dialect, text)
		}
	}
}

func TestList_json_is_protojson(t *testing.T) {
	a := showAdmin(t, 1)
	r := a.json("list")
	var c pb.Config
	if err := protojson.Unmarshal([]byte(r.out), &c); err != nil {
		t.Fatalf("%v\n%s", err, r.out)
	}
	tree := config.NewTree(c.GetObjects()...)
	if changes := config.Diff(a.store.Newest().Tree, tree); len(changes) != 0 || tree.Len("") != a.store.Newest().Tree.Len("") {
		t.Errorf("it differs: %v", changes)
	}
	if !strings.Contains(r.out, `"cookie_expiration":864000`) || !strings.Contains(r.out, `"comments":[" the shop"]`) || strings.Contains(r.out, `"meta":{}`) {
		t.Errorf("got %s", r.out)
	}
}

// TestShow_many_records has more of them than a reply may hold at a time.
func TestShow_many_records(t *testing.T) {
	const records = 100_000
	d := startFake(t)
	a := startAdmin(t, "", d)
	a.mustLoad(showSite)
	d.set(func() { d.recordCount = records })
	e := &execution{server: a.server, header: &pb.ExecuteHeader{Output: pb.OutputFormat_OUTPUT_FORMAT_JSON}}
	bytes, most := 0, 0
	e.send = func(*pb.ExecuteReply) error { return nil }
	e.out = &pieces{send: func(b []byte) error { bytes += len(b); most = max(most, len(b)); return nil }}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	l := jsonList{w: e.out}
	if err := e.recordList(t.Context(), &l, &pb.RecordFilter{}); err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if l.entries != records || bytes < records*100 || most > outputBytes {
		t.Errorf("%d records in %d bytes, at most %d at once", l.entries, bytes, most)
	}
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 10<<20 {
		t.Errorf("%d bytes are held", grown)
	}
}

func TestTable_widths(t *testing.T) {
	var out strings.Builder
	tab := table{w: &out}
	for i := range tableAhead + 50 {
		if err := tab.row(fmt.Sprint("k", i), "värde", "x"); err != nil {
			t.Fatal(err)
		}
	}
	if err := tab.flush(); err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != tableAhead+50 || lines[0] != "k0    värde  x" || lines[tableAhead+49] != "k549  värde  x" {
		t.Errorf("%d lines, %q and %q", len(lines), lines[0], lines[len(lines)-1])
	}
}
