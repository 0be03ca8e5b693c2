package grammar

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/alecthomas/participle/v2/lexer"
	"google.golang.org/protobuf/proto"

	pb "bigpipe/proto/bigpipe/v1"
)

// wrongWord reports a word that is none of those that can stand there.
func (cl *clause) wrongWord(t lexer.Token, words ...string) {
	if t.Type == lexer.EOF {
		cl.p.faults.at(t, CodeSyntax, "", "%s is not complete; next is one of %s", cl.keyword.Value, strings.Join(words, ", "))
		return
	}
	cl.p.faults.at(t, CodeUnknownWord, nearest(t.Value, words), "%q cannot stand here; next is one of %s", t.Value, strings.Join(words, ", "))
}

// verb reads what can be asked of an object, or of all of a kind where key is "".
func (cl *clause) verb(kind Kind, key string, name lexer.Token) {
	c := cl.c
	t, ok := c.peek()
	if !ok {
		if !c.done() {
			cl.wrongWord(c.here(), cl.verbs(kind, key)...)
			return
		}
		cl.emit(ActionShow, kind, key, name)
		return
	}
	c.i++
	switch {
	case t.Value == "show":
		cl.emit(ActionShow, kind, key, name)
	case t.Value == "stats":
		if _, ok := c.word("reset"); !ok {
			cl.wrongWord(c.here(), "reset")
			return
		}
		cl.emit(ActionStatsReset, kind, key, name)
	case t.Value == "delete" && key != "" && kind != KindPool:
		cl.emit(ActionDelete, kind, key, name)
	case t.Value == "persist" && kind == KindPool:
		_, pool := pb.SplitKey(key)
		cl.persistQuery(key, pool, name)
		return
	case t.Value == "sticky" && kind == KindPool && key != "":
		if _, ok := c.word("clear"); !ok {
			cl.wrongWord(c.here(), "clear")
			return
		}
		cl.emit(ActionStickyClear, kind, key, name)
	case t.Value == "lb_mode" && kind == KindPool && key != "":
		if _, ok := c.word("show"); !ok {
			cl.wrongWord(c.here(), "show")
			return
		}
		cl.emit(ActionLBModeShow, kind, key, name)
	default:
		cl.wrongWord(t, cl.verbs(kind, key)...)
		return
	}
	cl.end()
}

// verbs lists the words that verb knows.
func (cl *clause) verbs(kind Kind, key string) []string {
	switch {
	case kind == KindPool && key != "":
		return append([]string{"{"}, poolVerbs...)
	case kind == KindPool:
		return []string{"show", "persist", "stats"}
	case key != "":
		return []string{"show", "delete", "stats"}
	}
	return []string{"show", "stats"}
}

// persistQuery reads what follows pool [P] persist and persist: show, dump, clear, explain, forecast.
func (cl *clause) persistQuery(key, pool string, name lexer.Token) {
	c := cl.c
	t, _ := c.peek()
	c.i++
	kind := Kind("")
	if key != "" || cl.keyword.Value == "pool" {
		kind = KindPool
	}
	switch t.Value {
	case "show":
		cl.emit(ActionPersistShow, kind, key, name)
	case "dump", "clear":
		action := ActionPersistDump
		if t.Value == "clear" {
			action = ActionPersistClear
		}
		filter, ok := cl.filter()
		if pool != "" {
			filter.Pool = proto.String(pool)
		}
		if ok {
			cl.emit(action, kind, key, name).Filter = filter
		}
		return
	case "explain":
		cl.explain(kind, key, pool, name)
		return
	case "forecast":
		cl.forecast(kind, key, name)
	default:
		c.i--
		cl.wrongWord(c.here(), "show", "dump", "clear", "explain", "forecast")
		return
	}
	cl.end()
}

// argument reads the value of a named word; what names it in a fault.
func (cl *clause) argument(at lexer.Token) (string, lexer.Token, bool) {
	t, ok := cl.c.peek()
	if !ok {
		cl.p.faults.at(at, CodeValue, "", "%s needs a value", at.Value)
		return "", t, false
	}
	cl.c.i++
	return unquote(t), t, true
}

// filter reads [client A] [node N] [virtual V] [mode M] [older S] [pool P], each once at most.
func (cl *clause) filter() (*pb.RecordFilter, bool) {
	f := &pb.RecordFilter{}
	ok := cl.pairs([]string{"client", "node", "virtual", "mode", "older", "pool"}, func(word, text string) (fault, suggestion string) {
		switch word {
		case "client":
			text, fault = parseRecordKey(text)
			f.Client = &text
		case "node":
			var e endpoint
			e, fault, suggestion = parseEndpoint(text)
			f.Node = proto.String(e.String())
		case "virtual":
			text, fault, suggestion = parseScope(text)
			f.Virtual = &text
		case "pool":
			f.Pool = &text
		case "mode":
			n, ok := pb.ParseEnum(pb.PersistMode(0).Descriptor(), text)
			if !ok {
				modes := pb.EnumWords(pb.PersistMode(0).Descriptor())
				return fmt.Sprintf("%q is no persistence mode; it is one of %s", text, strings.Join(modes, ", ")), nearest(text, modes)
			}
			f.Mode = pb.PersistMode(n).Enum()
		case "older":
			n, err := strconv.ParseUint(text, 10, 64)
			if err != nil {
				fault = fmt.Sprintf("%q is not a number of seconds", text)
			}
			f.OlderSeconds = &n
		}
		return fault, suggestion
	})
	return f, ok
}

// pairs reads words with a value each, in any order and each once at most, to the end of the statement. vip is virtual. take is
// given a word and its value, and says what is wrong with it. False: there was a fault.
func (cl *clause) pairs(words []string, take func(word, text string) (fault, suggestion string)) bool {
	seen := map[string]bool{}
	for !cl.c.done() {
		at := cl.c.here()
		word := at.Value
		if same, ok := sameCommand[word]; ok {
			word = same
		}
		switch {
		case !slices.Contains(words, word):
			cl.wrongWord(at, words...)
			return false
		case seen[word]:
			cl.p.faults.at(at, CodeSyntax, "", "%s is given twice", word)
			return false
		}
		seen[word] = true
		cl.c.i++
		text, t, ok := cl.argument(at)
		if !ok {
			return false
		}
		if fault, suggestion := take(word, text); fault != "" {
			cl.p.faults.at(t, CodeValue, suggestion, "%s: %s", at.Value, fault)
			return false
		}
	}
	return true
}

// explain reads [pool P] client A [destination D] [cookie C] [session ID] [token T] [path P] [virtual V].
func (cl *clause) explain(kind Kind, key, pool string, name lexer.Token) {
	e := &pb.ExplainRequest{Pool: pool}
	ok := cl.pairs([]string{"client", "destination", "cookie", "session", "token", "path", "virtual", "pool"}, func(word, text string) (fault, suggestion string) {
		switch word {
		case "client":
			e.Client, fault = parseAddress(text)
		case "destination":
			text, fault = parseAddress(text)
			e.Destination = &text
		case "cookie":
			e.Cookie = &text
		case "session":
			if b, err := hex.DecodeString(text); err != nil || len(b) == 0 || len(b) > 32 {
				fault = fmt.Sprintf("session %q is not an ID in hex, of up to 32 bytes", text)
			}
			e.Session = &text
		case "token":
			e.Token = &text
		case "path":
			e.Path = &text
		case "virtual":
			var end endpoint
			end, fault, suggestion = parseEndpoint(text)
			e.Virtual = proto.String(end.String())
		case "pool":
			e.Pool = text
		}
		return fault, suggestion
	})
	if !ok {
		return
	}
	if e.Pool == "" || e.Client == "" {
		cl.p.faults.at(cl.c.here(), CodeSyntax, "", "persist explain needs pool P and client ADDRESS")
		return
	}
	if kind == "" {
		key = "pool/" + e.Pool
	}
	cl.emit(ActionPersistExplain, KindPool, key, name).Explain = e
}

func (cl *clause) forecast(kind Kind, key string, name lexer.Token) {
	at, ok := cl.c.word("node")
	if !ok {
		cl.wrongWord(cl.c.here(), "node")
		return
	}
	text, t, ok := cl.argument(at)
	if !ok {
		return
	}
	e, fault, suggestion := parseEndpoint(text)
	if fault != "" {
		cl.p.faults.at(t, CodeValue, suggestion, "node: %s", fault)
		return
	}
	cl.emit(ActionPersistForecast, kind, key, name).Words = []string{e.String()}
}

// operation reads the commands that are no objects.
func (cl *clause) operation() {
	none := lexer.Token{}
	switch cl.keyword.Value {
	case "persist":
		cl.persist()
	case "conn", "dt":
		cl.connections()
	case "sip":
		if _, ok := cl.c.word("dump"); !ok {
			cl.wrongWord(cl.c.here(), "dump")
			return
		}
		cl.emit(ActionPersistDump, "", "", none).Filter = &pb.RecordFilter{Mode: pb.PersistMode_PERSIST_MODE_SIP.Enum()}
		cl.end()
	case "stats":
		if _, ok := cl.c.word("reset"); !ok {
			cl.wrongWord(cl.c.here(), "reset")
			return
		}
		cl.emit(ActionStatsReset, "", "", none)
		cl.end()
	case "list":
		cl.list()
	case "load":
		cl.fileCommand(ActionLoad, 0, "--dry-run", "--confirm-within")
	case "merge":
		cl.fileCommand(ActionMerge, 1, "--dry-run")
	case "save":
		cl.fileCommand(ActionSave, 0, "--dialect")
	case "verify":
		if _, ok := cl.c.word("load"); !ok {
			cl.wrongWord(cl.c.here(), "load")
			return
		}
		cl.fileCommand(ActionVerifyLoad, 0)
	case "rollback":
		cl.rollback()
	case "failover":
		cl.failover()
	case "config", "configsync":
		cl.config()
	case "makecookie":
		cl.makeCookie()
	case "help":
		st := cl.emit(ActionHelp, "", "", none)
		st.Words = cl.words()
	default:
		actions := map[string]Action{
			"reset": ActionReset, "history": ActionHistory, "confirm": ActionConfirm, "version": ActionVersion, "summary": ActionSummary,
		}
		cl.emit(actions[cl.keyword.Value], "", "", none)
		cl.end()
	}
}

// words takes what is left of the statement.
func (cl *clause) words() []string {
	var words []string
	for ; !cl.c.done(); cl.c.i++ {
		words = append(words, unquote(cl.c.here()))
	}
	return words
}

// persist reads persist SERVICE SECONDS, persist SERVICE show and the queries of records.
func (cl *clause) persist() {
	c := cl.c
	t, ok := c.peek()
	port, isService := ParseService(t.Value)
	if !ok || !isService {
		cl.persistQuery("", "", lexer.Token{})
		return
	}
	c.i++
	next, ok := c.peek()
	switch {
	case !ok:
		cl.p.faults.at(c.here(), CodeSyntax, "", "persist %s is followed by SECONDS", t.Value)
		return
	case next.Value == "show":
		c.i++
		cl.emit(ActionPortPersistShow, KindService, serviceKey(t), t).Port = uint32(port)
	default:
		c.i++
		seconds, err := strconv.ParseUint(next.Value, 10, 32)
		if err != nil {
			cl.p.faults.at(next, CodeValue, "", "persist %s: %q is not a number of seconds from 0 to 4294967295", t.Value, next.Value)
			return
		}
		st := cl.emit(ActionPortPersist, KindService, serviceKey(t), t)
		st.Port, st.Seconds = uint32(port), seconds
	}
	cl.end()
}

// connections reads conn [dump|show] [client A] [virtual V] [node N], and dt.
func (cl *clause) connections() {
	c := cl.c
	if cl.keyword.Value == "conn" {
		if _, ok := c.word("dump"); !ok {
			c.word("show")
		}
	}
	r := &pb.ListConnectionsRequest{}
	words := []string{"client", "virtual", "vip", "node"}
	for !c.done() {
		at := c.here()
		if !slices.Contains(words, at.Value) {
			cl.wrongWord(at, append([]string{"dump"}, words...)...)
			return
		}
		c.i++
		text, t, ok := cl.argument(at)
		if !ok {
			return
		}
		e, fault, suggestion := parseEndpoint(text)
		if fault != "" {
			cl.p.faults.at(t, CodeValue, suggestion, "%s: %s", at.Value, fault)
			return
		}
		address := e.String()
		switch at.Value {
		case "client":
			r.Client = &address
		case "node":
			r.Node = &address
		default:
			r.Virtual = &address
		}
	}
	cl.emit(ActionConnDump, "", "", lexer.Token{}).Connections = r
}
