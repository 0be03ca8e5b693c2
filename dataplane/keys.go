package dataplane

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"bigpipe/dataplane/cookie"
	"bigpipe/store/config"
)

// keys are those that encrypt cookies, as they were read last.
type keys struct {
	read []cookie.Key
	ring *cookie.Ring // nil without a key
}

// readKeys reads the key files that the configuration names, with each update anew, and reports whether that changed the keys.
// A file that cannot be read is a fault, and the other keys stay in use.
func (e *Engine) readKeys(r *runtime) (changed bool) {
	var read []cookie.Key
	var reasons []string
	for _, k := range config.Globals(r.view).GetCookieKeys() {
		key, err := readKey(k.GetFile())
		if err != nil {
			reasons = append(reasons, fmt.Sprintf("cookie_key %s: %v", k.GetName(), err))
			continue
		}
		read = append(read, key)
	}
	delete(r.faults, "global")
	r.fault("global", reasons...)
	if slices.Equal(read, e.keys.read) {
		return false
	}
	e.keys = keys{read: read}
	if len(read) > 0 {
		e.keys.ring = cookie.NewRing(read[0], read[1:]...)
	}
	return true
}

// longestKeyFile bounds what is read of a file, in bytes.
const longestKeyFile = 1 << 10

func readKey(path string) (cookie.Key, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // a pipe without a writer would wait
	if err != nil {
		return cookie.Key{}, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return cookie.Key{}, fmt.Errorf("%s: %w", path, cmp.Or(err, errNoFile))
	}
	text, err := io.ReadAll(io.LimitReader(f, longestKeyFile+1))
	if err != nil {
		return cookie.Key{}, err
	}
	if len(text) > longestKeyFile {
		return cookie.Key{}, fmt.Errorf("%s: %w", path, errLongKey)
	}
	key, err := cookie.ParseKey(text)
	if err != nil {
		return cookie.Key{}, fmt.Errorf("%s: %w", path, err)
	}
	return key, nil
}

var (
	errNoFile  = errors.New("not a regular file")
	errLongKey = errors.New("too long for a key")
)
