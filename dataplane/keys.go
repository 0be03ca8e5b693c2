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
	read    []cookie.Key
	ring    *cookie.Ring // nil without a key
	exposed []string     // files that anybody may read or write; each was warned of
}

// readKeys reads the key files that the configuration names, with each update anew, and reports whether that changed the keys.
// A file that cannot be read is a fault, and the other keys stay in use. One that anybody may read is used and warned of:
// clients would lose their members otherwise.
func (e *Engine) readKeys(r *runtime) (changed bool) {
	var read []cookie.Key
	var reasons, exposed []string
	for _, k := range config.Globals(r.view).GetCookieKeys() {
		key, mode, err := readKey(k.GetFile())
		if err != nil {
			reasons = append(reasons, fmt.Sprintf("cookie_key %s: %v", k.GetName(), err))
			continue
		}
		read = append(read, key)
		if mode&0o007 == 0 {
			continue
		}
		if exposed = append(exposed, k.GetFile()); !slices.Contains(e.keys.exposed, k.GetFile()) {
			e.log.Warn("anybody may read or write a cookie key", "cookie_key", k.GetName(), "file", k.GetFile(), "mode", mode)
		}
	}
	e.keys.exposed = exposed
	delete(r.faults, "global")
	r.fault("global", reasons...)
	if slices.Equal(read, e.keys.read) {
		return false
	}
	e.keys.read, e.keys.ring = read, nil
	if len(read) > 0 {
		e.keys.ring = cookie.NewRing(read[0], read[1:]...)
	}
	return true
}

// longestKeyFile bounds what is read of a file, in bytes.
const longestKeyFile = 1 << 10

// readKey reads a key, and tells the permissions of its file.
func readKey(path string) (key cookie.Key, mode os.FileMode, err error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // a pipe without a writer would wait
	if err != nil {
		return key, 0, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return key, 0, fmt.Errorf("%s: %w", path, cmp.Or(err, errNoFile))
	}
	text, err := io.ReadAll(io.LimitReader(f, longestKeyFile+1))
	if err != nil {
		return key, 0, err
	}
	if len(text) > longestKeyFile {
		return key, 0, fmt.Errorf("%s: %w", path, errLongKey)
	}
	if key, err = cookie.ParseKey(text); err != nil {
		return key, 0, fmt.Errorf("%s: %w", path, err)
	}
	return key, info.Mode().Perm(), nil
}

var (
	errNoFile  = errors.New("not a regular file")
	errLongKey = errors.New("too long for a key")
)
