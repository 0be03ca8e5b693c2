package bigpipev1

import (
	"fmt"
	"strings"
)

const (
	// longestMessage is how much of a message is shown, in bytes: it may quote a word that is as long as the file.
	longestMessage = 2000
	// messageEnd is how much of that is the message's end, which often says what is wrong with the word.
	messageEnd = 500
)

// Message is Sprintf for the message of a diagnostic: what is left of a very long one is its beginning and its end.
func Message(format string, args ...any) string {
	text := fmt.Sprintf(format, args...)
	if len(text) <= longestMessage {
		return text
	}
	begin, end := text[:longestMessage-messageEnd], text[len(text)-messageEnd:]
	return strings.ToValidUTF8(begin, "") + " ... " + strings.ToValidUTF8(end, "")
}
