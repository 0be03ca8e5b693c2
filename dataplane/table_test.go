package dataplane

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"bigpipe/dataplane/forward"
	"bigpipe/dataplane/persist"
	"bigpipe/dataplane/pool"
	"bigpipe/grammar"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

// messages names the messages of the model whose fields the attribute tables set.
var messages = map[*grammar.Table]string{
	grammar.Interfaces: "Interface", grammar.Ipaliases: "Ipalias", grammar.Trunks: "Trunk", grammar.Stps: "Stp", grammar.Vlans: "Vlan",
	grammar.Vlangroups: "Vlangroup", grammar.Selfs: "Self", grammar.Globals: "Global", grammar.Services: "Service", grammar.Classes: "Class",
	grammar.Authzs: "Authz", grammar.Monitors: "Monitor", grammar.Pools: "Pool", grammar.Members: "Member",
	grammar.VirtualAddresses: "VirtualAddress", grammar.Virtuals: "VirtualServer", grammar.Nodes: "Node", grammar.MonitorUses: "MonitorUse",
	grammar.Snats: "Snat", grammar.Nats: "Nat", grammar.Proxies: "Proxy", grammar.Aliases: "Alias",
	grammar.Actives: "Active",
}

// readAlone are fields that are read, but not to act on them.
var readAlone = map[string]string{
	"Proxy.TargetVirtual":       "what refers to what",
	"VirtualServer.LasthopPool": "what refers to what",
	"VirtualServer.ClonePool":   "what refers to what",
	"Pool.Forward":              "refused",
	"Pool.MirrorPersist":        "no program has a mirror (W-9)",
	"VirtualServer.Forward":     "refused",
}

// above are fields that are acted on before the dataplane gets the configuration.
var above = map[string]string{
	"Class.File": "what the file says becomes the strings, hosts and networks of the class",
}

// TestActs: the column of the attribute tables that says what the dataplane acts on is true: the dataplane, or a function of the
// model's rules that it calls, reads just those fields.
func TestActs(t *testing.T) {
	read := fieldsRead(t)
	for _, table := range grammar.Tables() {
		if messages[table] == "" {
			t.Errorf("no message for the table of %s", table.Title)
		}
		for _, a := range table.Rows {
			name := messages[table] + "." + goName(a.Field)
			acts := read[name] && readAlone[name] == "" || above[name] != ""
			if acts != a.Acts {
				t.Errorf("%s %s: the table says %t, the dataplane reads %s: %t", table.Title, a.Name(), a.Acts, name, read[name])
			}
			if readAlone[name] != "" && !read[name] {
				t.Errorf("%s is not read any more", name)
			}
		}
	}
}

func goName(field string) string {
	var b strings.Builder
	for _, word := range strings.Split(field, "_") {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return b.String()
}

const (
	modelPath = "bigpipe/proto/bigpipe/v1"
	rulesPath = "bigpipe/store/config"
)

// fieldsRead returns the fields of the model, "Pool.SimpleMask", that the dataplane's packages read, and those that the functions of
// the model's rules read which they call.
func fieldsRead(t *testing.T) map[string]bool {
	out, err := exec.Command("go", "list", "-export", "-deps", "-f", "{{.ImportPath}}\t{{.Export}}\t{{.Dir}}\t{{join .GoFiles \" \"}}",
		"bigpipe/dataplane/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	exports := map[string]string{}
	fset := token.NewFileSet()
	gc := importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	read, calls := map[string]bool{}, map[string]bool{}
	rules := map[string]*usage{}
	for line := range bytes.Lines(out) {
		column := strings.Split(strings.TrimSuffix(string(line), "\n"), "\t")
		path, dir, files := column[0], column[2], strings.Fields(column[3])
		exports[path] = column[1]
		if path != rulesPath && !strings.HasPrefix(path, "bigpipe/dataplane") {
			continue
		}
		var parsed []*ast.File
		for _, file := range files {
			f, err := parser.ParseFile(fset, filepath.Join(dir, file), nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			parsed = append(parsed, f)
		}
		info := &types.Info{Uses: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{}}
		if _, err := (&types.Config{Importer: gc}).Check(path, fset, parsed, info); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		for _, f := range parsed {
			for _, d := range f.Decls {
				u := usageOf(d, info)
				if fn, is := d.(*ast.FuncDecl); is && path == rulesPath {
					rules[functionName(fn)] = u
					continue
				}
				for name := range u.fields {
					read[name] = true
				}
				for name := range u.calls {
					calls[name] = true
				}
			}
		}
	}
	var visit func(name string)
	seen := map[string]bool{}
	visit = func(name string) {
		if u := rules[name]; u != nil && !seen[name] {
			seen[name] = true
			for field := range u.fields {
				read[field] = true
			}
			for called := range u.calls {
				visit(called)
			}
		}
	}
	for name := range calls {
		visit(name)
	}
	return read
}

// usage is what a declaration reads of the model, and the functions and methods of the model's rules that it names.
type usage struct{ fields, calls map[string]bool }

func usageOf(d ast.Decl, info *types.Info) *usage {
	u := &usage{map[string]bool{}, map[string]bool{}}
	ast.Inspect(d, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if s := info.Selections[n]; s != nil {
				if receiver := named(s.Recv()); receiver != nil && receiver.Obj().Pkg() != nil && receiver.Obj().Pkg().Path() == modelPath {
					u.fields[receiver.Obj().Name()+"."+strings.TrimPrefix(n.Sel.Name, "Get")] = true
				}
			}
		case *ast.Ident:
			if fn, is := info.Uses[n].(*types.Func); is && fn.Pkg() != nil && fn.Pkg().Path() == rulesPath {
				u.calls[calledName(fn)] = true
			}
		}
		return true
	})
	return u
}

func named(t types.Type) *types.Named {
	if p, is := t.(*types.Pointer); is {
		t = p.Elem()
	}
	n, _ := t.(*types.Named)
	return n
}

// functionName and calledName name a function, or a method with its type.
func functionName(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return fn.Name.Name
	}
	t := fn.Recv.List[0].Type
	if star, is := t.(*ast.StarExpr); is {
		t = star.X
	}
	if index, is := t.(*ast.IndexExpr); is {
		t = index.X
	}
	return fmt.Sprintf("%v.%s", t, fn.Name.Name)
}

func calledName(fn *types.Func) string {
	if receiver := fn.Signature().Recv(); receiver != nil {
		if n := named(receiver.Type()); n != nil {
			return n.Obj().Name() + "." + fn.Name()
		}
	}
	return fn.Name()
}

// TestDefaults: what the attribute tables say of absent attributes is what the code does.
func TestDefaults(t *testing.T) {
	seconds := func(d time.Duration) string { return strconv.Itoa(int(d.Seconds())) }
	empty := config.NewTree()
	state := config.MemberState(empty, "10.1.1.1:80")
	tcp, udp := config.Listening(empty, &pb.VirtualServer{Address: "10.0.0.1:80"})
	virtual, _ := config.VirtualEnabled(empty, &pb.VirtualServer{Address: "10.0.0.1:80"})
	http, _ := config.IsHTTP(empty, &pb.VirtualServer{Address: "10.0.0.1:80"})
	plain, _ := pool.Compile(&pb.Pool{Name: "p"}, &pool.Env{View: empty}, nil)
	ssl, _ := pool.Compile(&pb.Pool{Name: "p", PersistMode: pb.PersistMode_PERSIST_MODE_SSL.Enum()}, &pool.Env{View: empty}, nil)
	one := oneConnect(&pb.VirtualServer{Oneconnect: proto.Bool(true)})
	onOff := map[bool]string{true: "enable", false: "disable"}
	mask := config.SimpleMaskOf(&pb.Pool{})
	for _, tt := range []struct {
		table *grammar.Table
		field string
		want  string
	}{
		{grammar.Globals, "lb", pb.EnumWord(config.LbModeOf(empty, &pb.Pool{}))},
		{grammar.Globals, "persist_table_limit", strconv.Itoa(persist.DefaultLimit)},
		{grammar.Globals, "persist_timer", persist.Timer(0).String()},
		{grammar.Pools, "persist_mode", pb.EnumWord(config.PersistModeOf(&pb.Pool{}))},
		{grammar.Pools, "cookie_mode", pb.EnumWord(config.CookieModeOf(&pb.Pool{}))},
		{grammar.Pools, "simple_timeout", seconds(config.PersistTimeout(&pb.Pool{PersistMode: pb.PersistMode_PERSIST_MODE_SIMPLE.Enum()}))},
		{grammar.Pools, "simple_mask6", strconv.Itoa(mask.Bits6)},
		{grammar.Pools, "sticky_mask6", strconv.Itoa(config.StickyMaskOf(&pb.Pool{}).Bits6)},
		{grammar.Pools, "ssl_timeout", seconds(config.DefaultSSLTimeout)},
		{grammar.Pools, "ssl_hello_timeout", seconds(ssl.HelloTimeout)},
		{grammar.Pools, "sip_timeout", seconds(config.DefaultSIPTimeout)},
		{grammar.Pools, "msrdp_timeout", seconds(config.DefaultMSRDPTimeout)},
		{grammar.Pools, "token_retain", seconds(config.DefaultTokenRetain)},
		{grammar.Pools, "connect_timeout", seconds(plain.ConnectTimeout)},
		{grammar.Pools, "response_timeout", seconds(plain.ResponseTimeout)},
		{grammar.Members, "ratio", strconv.Itoa(int(config.MemberRatio(&pb.Member{})))},
		{grammar.Nodes, "ratio", strconv.Itoa(int(config.NodeRatio(empty, "10.1.1.1")))},
		{grammar.Nodes, "enabled", onOff[state.Enabled]},
		{grammar.Nodes, "up", map[bool]string{true: "up", false: "down"}[state.Up]},
		{grammar.Services, "tcp", onOff[tcp]},
		{grammar.Services, "udp", onOff[udp]},
		{grammar.Virtuals, "enabled", onOff[virtual]},
		{grammar.VirtualAddresses, "enabled", onOff[virtual]},
		{grammar.Virtuals, "http", map[bool]string{false: "auto", true: "enable"}[http]},
		{grammar.Virtuals, "header_timeout", seconds(forward.DefaultHeaderTimeout)},
		{grammar.Virtuals, "idle_timeout", seconds(forward.DefaultIdleTimeout)},
		{grammar.Virtuals, "body_min_rate", strconv.Itoa(forward.DefaultBodyMinRate)},
		{grammar.Virtuals, "oneconnect_max_size", strconv.Itoa(one.MaxSize)},
		{grammar.Virtuals, "oneconnect_max_reuse", strconv.Itoa(one.MaxReuse)},
		{grammar.Virtuals, "oneconnect_max_age", seconds(one.MaxAge)},
		{grammar.Virtuals, "oneconnect_source_mask", pb.MaskText(config.OneconnectMaskOf(&pb.VirtualServer{}).Bits4)},
	} {
		if got := tt.table.Find(tt.field).Default; got != tt.want {
			t.Errorf("%s %s: the table says %q, the code %q", tt.table.Title, tt.field, got, tt.want)
		}
	}
}
