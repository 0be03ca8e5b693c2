package shell

import "strings"

// token is a word, a string, a brace or another sign of a text; start and end are its bytes there.
type token struct {
	text       string
	start, end int
	// depth counts the braces and quotes around it.
	depth int
}

// scan cuts a text into tokens as far as completion needs it: comments go, a string that is not closed is the last token.
// open is set when the text ends inside a string or a comment.
func scan(text string) (tokens []token, open bool) {
	depth, quoted := 0, false
	add := func(start, end int) {
		tokens = append(tokens, token{text: text[start:end], start: start, end: end, depth: depth})
	}
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case isBlank(c):
			i++
		case c == '\\' && (strings.HasPrefix(text[i:], "\\\n") || strings.HasPrefix(text[i:], "\\\r\n")):
			i++
		case c == '#':
			n := strings.IndexByte(text[i:], '\n')
			if n < 0 {
				return tokens, true
			}
			i += n
		case c == '"':
			end, closed := stringEnd(text, i)
			add(i, end)
			if !closed {
				return tokens, true
			}
			i = end
		case strings.IndexByte("{}()'", c) >= 0:
			opens := c == '{' || c == '(' || c == '\'' && !quoted
			if !opens {
				depth = max(0, depth-1)
			}
			add(i, i+1)
			if opens {
				depth++
			}
			if c == '\'' {
				quoted = !quoted
			}
			i++
		default:
			end := i
			for end < len(text) && !isBlank(text[end]) && strings.IndexByte("{}()'\"#", text[end]) < 0 {
				end++
			}
			add(i, end)
			i = end
		}
	}
	return tokens, false
}

// stringEnd is where the string that begins at i ends, and whether its quote is closed.
func stringEnd(text string, i int) (end int, closed bool) {
	for end = i + 1; end < len(text); end++ {
		switch text[end] {
		case '\\':
			end++
		case '"':
			return end + 1, true
		}
	}
	return len(text), false
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// texts are the texts of tokens.
func texts(tokens []token) []string {
	list := make([]string, len(tokens))
	for i, t := range tokens {
		list[i] = t.text
	}
	return list
}
