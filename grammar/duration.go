package grammar

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// maxExpiration is the longest lifetime of a cookie, in seconds.
const maxExpiration = 1<<32 - 1

// maxTimeout is the longest token timeout: what one part of a duration can say.
const maxTimeout = 99999 * time.Hour

var (
	expirationDays  = regexp.MustCompile(`^([0-9]{1,9})d$`)
	expirationClock = regexp.MustCompile(`^[0-9]{1,10}(:[0-9]{1,2}){1,3}$`)
	durationShape   = regexp.MustCompile(`^([0-9]{1,5}(h|ms|m|s)){1,4}$`)
	durationPart    = regexp.MustCompile(`([0-9]{1,5})(h|ms|m|s)`)
)

// readExpiration reads a cookie's lifetime, whose clock may be a second word: 10d 12:00:00 (rule C-6).
func readExpiration(text string, c *cursor) (v value, fault, suggestion string) {
	if text == "none" {
		return value{none: true}, "", ""
	}
	if next, ok := c.peek(); ok && expirationDays.MatchString(text) && expirationClock.MatchString(next.Value) {
		text += " " + next.Value
		c.i++
	}
	seconds, err := ParseExpiration(text)
	if err != nil {
		return v, err.Error(), ""
	}
	return value{v: protoreflect.ValueOfUint64(seconds)}, "", ""
}

// ParseExpiration returns the seconds of a cookie's lifetime: 10d, 10d 12:30:00, D:HH:MM:SS, HH:MM:SS, MM:SS or seconds (rule C-6).
func ParseExpiration(text string) (uint64, error) {
	bad := fmt.Errorf("%q is not a lifetime: write DAYSd [HH:MM:SS], D:HH:MM:SS, HH:MM:SS, MM:SS or SECONDS", text)
	days, clock, both := strings.Cut(text, " ")
	var seconds uint64
	switch m := expirationDays.FindStringSubmatch(days); {
	case m != nil:
		n, _ := strconv.ParseUint(m[1], 10, 64)
		seconds = n * 86400
		if both {
			if strings.Count(clock, ":") != 2 || !expirationClock.MatchString(clock) {
				return 0, bad
			}
			rest, ok := clockSeconds(clock)
			if !ok || rest >= 86400 {
				return 0, bad
			}
			seconds += rest
		}
	case both:
		return 0, bad
	case isNumber(text) && len(text) <= 10:
		seconds, _ = strconv.ParseUint(text, 10, 64)
	default:
		n, ok := clockSeconds(text)
		if !ok || !expirationClock.MatchString(text) {
			return 0, bad
		}
		seconds = n
	}
	if seconds > maxExpiration {
		return 0, fmt.Errorf("%q is more than %d seconds", text, uint64(maxExpiration))
	}
	return seconds, nil
}

// clockSeconds reads D:H:M:S, H:M:S or M:S. The first part may be any number; those after it are below 24 hours, 60 minutes and
// 60 seconds.
func clockSeconds(text string) (uint64, bool) {
	parts := strings.Split(text, ":")
	units := []uint64{86400, 3600, 60, 1}[max(0, 4-len(parts)):]
	limits := []uint64{0, 24, 60, 60}[max(0, 4-len(parts)):]
	if len(parts) < 2 || len(parts) > 4 {
		return 0, false
	}
	var sum uint64
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 10, 40)
		if err != nil || i > 0 && n >= limits[i] {
			return 0, false
		}
		sum += n * units[i]
	}
	return sum, true
}

// FormatExpiration writes seconds as a cookie's lifetime: 10d, 1d 12:00:00.
func FormatExpiration(seconds uint64) string {
	days, rest := seconds/86400, seconds%86400
	if rest == 0 {
		return fmt.Sprintf("%dd", days)
	}
	return fmt.Sprintf("%dd %02d:%02d:%02d", days, rest/3600, rest/60%60, rest%60)
}

// ParseDuration reads a duration of GEP-2257: up to four parts, each of at most five digits and one of h, m, s, ms (rule G-16).
func ParseDuration(text string) (time.Duration, error) {
	if !durationShape.MatchString(text) {
		return 0, fmt.Errorf("%q is not a duration such as 1h30m", text)
	}
	var sum time.Duration
	for _, part := range durationPart.FindAllStringSubmatch(text, -1) {
		n, _ := strconv.Atoi(part[1])
		sum += time.Duration(n) * durationUnits[part[2]]
	}
	return sum, nil
}

var durationUnits = map[string]time.Duration{"h": time.Hour, "m": time.Minute, "s": time.Second, "ms": time.Millisecond}

// FormatDuration writes a duration as GEP-2257 does: 2h30m, 2h30s, 600ms; zero is 0s. Parts of a millisecond are dropped.
func FormatDuration(d time.Duration) string {
	var b strings.Builder
	for _, unit := range []string{"h", "m", "s", "ms"} {
		if n := d / durationUnits[unit]; n > 0 {
			fmt.Fprintf(&b, "%d%s", n, unit)
			d %= durationUnits[unit]
		}
	}
	if b.Len() == 0 {
		return "0s"
	}
	return b.String()
}

// parseTimeout reads a number of seconds or a duration, as milliseconds.
func parseTimeout(text string) (ms uint64, fault string) {
	var d time.Duration
	if isNumber(text) {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil || n > uint64(maxTimeout/time.Second) {
			return 0, fmt.Sprintf("%s is more than %s", text, FormatDuration(maxTimeout))
		}
		d = time.Duration(n) * time.Second
	} else {
		var err error
		if d, err = ParseDuration(text); err != nil {
			return 0, fmt.Sprintf("%q is neither a number of seconds nor a duration such as 1h30m", text)
		}
		if d > maxTimeout {
			return 0, fmt.Sprintf("%s is more than %s", text, FormatDuration(maxTimeout))
		}
	}
	return uint64(d / time.Millisecond), ""
}

// formatTimeout writes milliseconds as seconds where they are whole, else as a duration.
func formatTimeout(ms uint64) string {
	if ms%1000 == 0 {
		return strconv.FormatUint(ms/1000, 10)
	}
	return FormatDuration(time.Duration(ms) * time.Millisecond)
}
