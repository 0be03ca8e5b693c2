package shell

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/google/renameio/v2"
)

// maxHistory is how many commands are kept.
const maxHistory = 1000

// history is the commands of this shell and of earlier ones, the oldest first.
type history struct {
	path     string // "" keeps them in memory
	commands []string
}

// openHistory reads the file at path, which only its owner may read: it may hold secrets. What is older than maxHistory leaves
// the file. The error says that the file cannot be used; the history is then kept in memory.
func openHistory(path string) (*history, error) {
	h := &history{}
	if path == "" {
		return h, nil
	}
	text, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return h, err
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" {
			h.commands = append(h.commands, line)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 || len(h.commands) > 2*maxHistory {
		if err == nil { // a file that is replaced keeps its rights
			if err := os.Chmod(path, 0o600); err != nil {
				return h, err
			}
		}
		h.commands = h.commands[max(0, len(h.commands)-maxHistory):]
		if err := renameio.WriteFile(path, []byte(lineByLine(h.commands)), 0o600); err != nil {
			return h, err
		}
	}
	h.path = path
	return h, nil
}

func lineByLine(commands []string) string {
	if len(commands) == 0 {
		return ""
	}
	return strings.Join(commands, "\n") + "\n"
}

// add keeps a command, unless it is the one before again. Shells that run at the same time add to one file.
func (h *history) add(command string) error {
	if command == "" || len(h.commands) > 0 && h.commands[len(h.commands)-1] == command {
		return nil
	}
	h.commands = append(h.commands, command)
	if len(h.commands) > maxHistory {
		h.commands = slices.Delete(h.commands, 0, len(h.commands)-maxHistory)
	}
	if h.path == "" {
		return nil
	}
	f, err := os.OpenFile(h.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("history: %w", err)
	}
	_, err = f.WriteString(command + "\n")
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	return err
}

// oneLine joins the lines of a statement for the history, which keeps lines. Comments go: they would swallow what follows.
func oneLine(text string) string {
	lines := strings.Split(text, "\n")
	if len(lines) == 1 {
		return text
	}
	for i, line := range lines {
		quoted := false
		for j, r := range line {
			if r == '"' && (j == 0 || line[j-1] != '\\') {
				quoted = !quoted
			}
			if r == '#' && !quoted {
				line = line[:j]
				break
			}
		}
		lines[i] = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(line), "\\"))
	}
	return strings.Join(slices.DeleteFunc(lines, func(l string) bool { return l == "" }), " ")
}
