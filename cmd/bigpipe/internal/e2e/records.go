package e2e

import (
	"errors"
	"fmt"
	"strings"
)

// cmdClearEach takes each row that persist dump prints and clears by its words. Each clears just one record.
func cmdClearEach(s *script, args []string) (string, error) {
	if len(args) > 0 {
		return "", errors.New("usage: clear-each")
	}
	if err := s.Exec("bigpipe", "persist", "dump"); err != nil {
		return "", err
	}
	rows := strings.Split(strings.TrimSpace(s.ReadFile("stdout")), "\n")
	for _, row := range rows[1:] {
		w := strings.Fields(row)
		err := s.Exec("bigpipe", "pool", w[0], "persist", "clear", "mode", w[1], "client", w[2], "virtual", w[3], "node", w[4])
		if err != nil {
			return "", err
		}
		if got := s.ReadFile("stdout"); got != "1 cleared\n" {
			return "", fmt.Errorf("%s: %s", row, got)
		}
	}
	return fmt.Sprintln(len(rows) - 1), nil
}
