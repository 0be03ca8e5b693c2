package jroute

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"bigpipe/dataplane/http1"
)

var testLinks = Links{Parameter: "jsessionid", Separator: ":", Route: "R1", Body: true}

// rewritten returns a page that was given in pieces, cut at the positions.
func rewritten(l *Links, page string, cuts ...int) string {
	var w Rewriter
	w.Start(l)
	var out []byte
	from := 0
	for _, cut := range append(cuts, len(page)) {
		if cut = min(max(cut, from), len(page)); cut > from || len(page) == 0 {
			out = w.Append(out, []byte(page[from:cut]))
			from = cut
		}
	}
	return string(w.End(out))
}

// Rule J-23: the route is added behind each session ID in a page that lacks it, and nothing else changes.
func TestPage(t *testing.T) {
	long := strings.Repeat("a", MaxSession)
	for name, c := range map[string]struct{ page, want string }{
		"J-23_attribute":         {`<a href="/app/q;jsessionid=abc">q</a>`, `<a href="/app/q;jsessionid=abc:R1">q</a>`},
		"J-23_query":             {`<a href='q;jsessionid=abc?x=1&amp;y=2'>`, `<a href='q;jsessionid=abc:R1?x=1&amp;y=2'>`},
		"J-23_fragment":          {`<a href=q;jsessionid=abc#top>`, `<a href=q;jsessionid=abc:R1#top>`},
		"J-23_unquoted":          {`<a href=q;jsessionid=abc>`, `<a href=q;jsessionid=abc:R1>`},
		"J-23_parameter_follows": {`"/a;jsessionid=abc;v=1/b"`, `"/a;jsessionid=abc:R1;v=1/b"`},
		"J-23_several":           {`;jsessionid=a ;jsessionid=b ;jsessionid=c`, `;jsessionid=a:R1 ;jsessionid=b:R1 ;jsessionid=c:R1`},
		"J-23_has_a_route":       {`"/q;jsessionid=abc:R2?x"`, `"/q;jsessionid=abc:R2?x"`},
		"J-23_has_the_route":     {`"/q;jsessionid=abc:R1"`, `"/q;jsessionid=abc:R1"`},
		"J-23_has_a_colon":       {`"/q;jsessionid=abc:"`, `"/q;jsessionid=abc:"`},
		"J-23_clone_id":          {`"/q;jsessionid=0001abc:17"`, `"/q;jsessionid=0001abc:17"`},
		"J-23_at_the_end":        {`;jsessionid=abc`, `;jsessionid=abc:R1`},
		"J-23_script":            {`open("q;jsessionid=abc"+x)`, `open("q;jsessionid=abc:R1"+x)`},
		"J-23_json_in_a_script":  {`"\/q;jsessionid=abc\/r"`, `"\/q;jsessionid=abc:R1\/r"`},
		"J-23_style":             {`url(q;jsessionid=abc)`, `url(q;jsessionid=abc:R1)`},
		"J-23_srcset":            {`srcset="a;jsessionid=abc, b;jsessionid=abc 2x"`, `srcset="a;jsessionid=abc:R1, b;jsessionid=abc:R1 2x"`},
		"J-23_ids_of_servers":    {`;jsessionid=D3.n_o-1!-7!8~@+%41= `, `;jsessionid=D3.n_o-1!-7!8~@+%41=:R1 `},
		"J-8_case_sensitive":     {`"q;JSESSIONID=abc"`, `"q;JSESSIONID=abc"`},
		"other_parameter":        {`"q;xjsessionid=abc;jsession=abc;jsessionid"`, `"q;xjsessionid=abc;jsession=abc;jsessionid"`},
		"begins_twice":           {`;jsess;jsessionid=abc;;jsessionid=d;`, `;jsess;jsessionid=abc:R1;;jsessionid=d:R1;`},
		"query_parameter":        {`"q?jsessionid=abc"`, `"q?jsessionid=abc"`},
		"empty":                  {`"q;jsessionid="`, `"q;jsessionid="`},
		"template":               {`";jsessionid=${id}" ";jsessionid=a${id}"`, `";jsessionid=${id}" ";jsessionid=a${id}"`},
		"pattern":                {`/;jsessionid=[^?]*/ /;jsessionid=.*?/ /;jsessionid=a*/`, `/;jsessionid=[^?]*/ /;jsessionid=.*?/ /;jsessionid=a*/`},
		"not_ASCII":              {";jsessionid=ab\u00e9 \xff;jsessionid=ab\xff", ";jsessionid=ab\u00e9 \xff;jsessionid=ab\xff"},
		"longest":                {";jsessionid=" + long + "?", ";jsessionid=" + long + ":R1?"},
		"too_long":               {";jsessionid=" + long + "a?", ";jsessionid=" + long + "a?"},
		"endless":                {";jsessionid=" + strings.Repeat(long, 100), ";jsessionid=" + strings.Repeat(long, 100)},
		"after_endless":          {";jsessionid=" + long + "a?;jsessionid=b?", ";jsessionid=" + long + "a?;jsessionid=b:R1?"},
		"nothing":                {"", ""},
		"entity":                 {`q&#59;jsessionid=abc&quot;`, `q&#59;jsessionid=abc:R1&quot;`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := rewritten(&testLinks, c.page); got != c.want {
				t.Errorf("whole: %q; want %q", got, c.want)
			}
			var each []int
			for i := range len(c.page) {
				each = append(each, i)
			}
			if got := rewritten(&testLinks, c.page, each...); got != c.want {
				t.Errorf("byte by byte: %q; want %q", got, c.want)
			}
			var w Rewriter
			w.Start(&testLinks)
			for range 2 {
				if n := w.Growth([]byte(c.page)); n != len(c.want)-len(c.page) {
					t.Errorf("grows by %d bytes; want %d", n, len(c.want)-len(c.page))
				}
			}
		})
	}
}

// expected is what a regular expression makes of a page.
func expected(l *Links, page string) string {
	id := `[A-Za-z0-9_-][A-Za-z0-9_.~!+=@%:-]*`
	re := regexp.MustCompile("(;" + regexp.QuoteMeta(l.Parameter) + "=)(" + id + `)(\z|[;/?#"'<>&\\` + "`" + `,)\]}| \t\r\n\f])`)
	// The byte behind one link may begin the next one.
	var out strings.Builder
	for {
		at := re.FindStringSubmatchIndex(page)
		if at == nil {
			return out.String() + page
		}
		out.WriteString(page[:at[5]])
		if found := page[at[4]:at[5]]; !strings.Contains(found, l.Separator) && len(found) <= MaxSession {
			out.WriteString(l.Separator + l.Route)
		}
		page = page[at[5]:]
	}
}

// drawPage draws a page that is full of almost-links.
func drawPage(t *rapid.T) string {
	part := rapid.OneOf(
		rapid.SampledFrom([]string{
			";", "jsessionid=", ";jsessionid=", ";jsessionid", ";j", "abc", "A-1_.~", ":", ":R1", ":R2", "?", "/", `"`, "'", "&amp;", " ", "$", "*", "\xff",
			";jsessionid=abc", `<a href="/app;jsessionid=0F?x=1#y">`, strings.Repeat("x", MaxSession-3),
		}),
		rapid.StringN(0, 5, 20),
	)
	return strings.Join(rapid.SliceOfN(part, 0, 30).Draw(t, "parts"), "")
}

// Any split of any page gives the same as the whole page, which is what a regular expression makes of it.
func TestSplitPages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		page := drawPage(t)
		want := expected(&testLinks, page)
		if got := rewritten(&testLinks, page); got != want {
			t.Fatalf("%q\n got %q\nwant %q", page, got, want)
		}
		cuts := rapid.SliceOfN(rapid.IntRange(0, len(page)), 0, 20).Draw(t, "cuts")
		if got := rewritten(&testLinks, page, cuts...); got != want {
			t.Fatalf("%q cut at %v\n got %q\nwant %q", page, cuts, got, want)
		}
		var w Rewriter
		w.Start(&testLinks)
		if n := w.Growth([]byte(page)); n != len(want)-len(page) {
			t.Fatalf("%q grows by %d; want %d", page, n, len(want)-len(page))
		}
	})
}

// FuzzPage takes the routes out of a page again, however it was split, and finds the page that went in.
func FuzzPage(f *testing.F) {
	f.Add([]byte(`<a href="/app/q;jsessionid=abc?x=1">;jsessionid=abc:R2 ;jsessionid=`), uint16(7), uint16(30))
	f.Add([]byte(`;jsessionid=abc;jsessionid=d`), uint16(13), uint16(14))
	links := Links{Parameter: "jsessionid", Separator: ":", Route: "\x00route\x00"}
	f.Fuzz(func(t *testing.T, page []byte, cut, next uint16) {
		page = bytes.ReplaceAll(page, []byte(links.Route), nil)
		got := rewritten(&links, string(page), int(cut), int(cut)+int(next))
		if back := strings.ReplaceAll(got, links.Separator+links.Route, ""); back != string(page) && !bytes.Contains(page, []byte(links.Route)) {
			t.Errorf("%q became %q", page, got)
		}
		if want := expected(&links, string(page)); got != want {
			t.Errorf("%q became %q; want %q", page, got, want)
		}
		if again := rewritten(&Links{Parameter: "jsessionid", Separator: ":", Route: "R9"}, rewritten(&testLinks, string(page))); again != rewritten(&testLinks, string(page)) {
			t.Errorf("rewritten twice, %q became %q", page, again)
		}
	})
}

// Rule J-23 and test J-T8: links in header fields get the route if they lead to the host that was asked.
func TestLink(t *testing.T) {
	for name, c := range map[string]struct{ host, link, want string }{
		"J-T8":                  {"h", "/app/q;jsessionid=abc", "/app/q;jsessionid=abc:R1"},
		"J-T8_query_fragment":   {"h", "/app/q;jsessionid=abc?a=1;jsessionid=z#;jsessionid=y", "/app/q;jsessionid=abc:R1?a=1;jsessionid=z#;jsessionid=y"},
		"only_in_query":         {"h", "/q?next=/app;jsessionid=abc", "/q?next=/app;jsessionid=abc"},
		"relative":              {"h", "q;jsessionid=abc", "q;jsessionid=abc:R1"},
		"parameter_only":        {"h", ";jsessionid=abc", ";jsessionid=abc:R1"},
		"absolute":              {"h", "http://h/q;jsessionid=abc", "http://h/q;jsessionid=abc:R1"},
		"absolute_capitals":     {"Www.Example.com", "HTTP://wWW.example.COM/q;jsessionid=abc", "HTTP://wWW.example.COM/q;jsessionid=abc:R1"},
		"without_path":          {"h", "http://h;jsessionid=abc", "http://h;jsessionid=abc:R1"},
		"port":                  {"h:8080", "http://h:8080/q;jsessionid=abc", "http://h:8080/q;jsessionid=abc:R1"},
		"default_port":          {"h:80", "http://h/q;jsessionid=abc", "http://h/q;jsessionid=abc:R1"},
		"J-19_to_https":         {"h", "https://h:443/q;jsessionid=abc", "https://h:443/q;jsessionid=abc:R1"},
		"IPv6":                  {"[2001:db8::1]", "http://[2001:DB8::1]:80/q;jsessionid=abc", "http://[2001:DB8::1]:80/q;jsessionid=abc:R1"},
		"scheme_relative":       {"h", "//h/q;jsessionid=abc", "//h/q;jsessionid=abc:R1"},
		"has_a_route":           {"h", "/q;jsessionid=abc:R2", "/q;jsessionid=abc:R2"},
		"other_host":            {"h", "http://other/q;jsessionid=abc", "http://other/q;jsessionid=abc"},
		"longer_host":           {"h", "http://h.example.com/q;jsessionid=abc", "http://h.example.com/q;jsessionid=abc"},
		"other_port":            {"h", "http://h:8080/q;jsessionid=abc", "http://h:8080/q;jsessionid=abc"},
		"other_scheme":          {"h", "ftp://h/q;jsessionid=abc", "ftp://h/q;jsessionid=abc"},
		"opaque":                {"h", "javascript:x;jsessionid=abc", "javascript:x;jsessionid=abc"},
		"other_scheme_relative": {"h", "//other/q;jsessionid=abc", "//other/q;jsessionid=abc"},
		"backslashes":           {"h", `/\other/q;jsessionid=abc`, `/\other/q;jsessionid=abc`},
		"user":                  {"h", "http://u@h/q;jsessionid=abc", "http://u@h/q;jsessionid=abc"},
		"no_host_asked":         {"", "http:///q;jsessionid=abc", "http:///q;jsessionid=abc"},
		"colon_in_path":         {"h", "/a:b;jsessionid=abc", "/a:b;jsessionid=abc:R1"},
		"no_session":            {"h", "/app/q", "/app/q"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := testLinks.AppendLink(nil, []byte(c.link), []byte(c.host)); string(got) != c.want {
				t.Errorf("%q; want %q", got, c.want)
			}
		})
	}
}

// Rule J-23: three fields hold links; the bytes around them stay.
func TestHead(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{"Location: /app/q;jsessionid=abc", "Location: /app/q;jsessionid=abc:R1"},
		{"lOCATION:\t/app/q;jsessionid=abc  ", "lOCATION:\t/app/q;jsessionid=abc:R1  "},
		{"Content-Location: http://h/q;jsessionid=abc?x", "Content-Location: http://h/q;jsessionid=abc:R1?x"},
		{"Refresh: 5; url=/q;jsessionid=abc", "Refresh: 5; url=/q;jsessionid=abc:R1"},
		{"Refresh: 5;URL = 'http://h/q;jsessionid=abc?x'", "Refresh: 5;URL = 'http://h/q;jsessionid=abc:R1?x'"},
		{"Refresh: 0, /q;jsessionid=abc", "Refresh: 0, /q;jsessionid=abc:R1"},
		{"Refresh: 0;url=http://other/q;jsessionid=abc", "Refresh: 0;url=http://other/q;jsessionid=abc"},
		{"Refresh: 0;urls;jsessionid=abc", "Refresh: 0;urls;jsessionid=abc:R1"},
		{"Refresh: 5", "Refresh: 5"},
		{"Refresh: 5;", "Refresh: 5;"},
		{"Refresh: 5;url", "Refresh: 5;url"},
		{"Refresh: 5;url=\"", "Refresh: 5;url=\""},
		{"Location:", "Location:"},
		{"X-Location: /q;jsessionid=abc", "X-Location: /q;jsessionid=abc"},
		{"Link: </q;jsessionid=abc>", "Link: </q;jsessionid=abc>"},
	} {
		t.Run(c.line, func(t *testing.T) {
			var r http1.Response
			r.Reset(http1.Asked{KeepAlive: true})
			const first, last = "HTTP/1.1 302 Found\r\nContent-Length: 0\r\n", "X: ;jsessionid=abc\r\n\r\n"
			if _, err := r.Parse([]byte(first + c.line + "\r\n" + last)); err != nil {
				t.Fatal(err)
			}
			testLinks.EditHead(&r.Head, []byte("h"), make([]byte, 0, 7))
			if got := string(http1.AppendEnd(r.AppendHead(nil, http1.KeepAlive))); got != first+c.want+"\r\n"+last {
				t.Errorf("%q", got)
			}
		})
	}
}
