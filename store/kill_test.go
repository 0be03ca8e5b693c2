package store_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store"
	"bigpipe/store/config"
)

// The test program is its own child: what it does is in childEnv, the store in childPathEnv.
const (
	childEnv     = "STORE_TEST_CHILD"
	childPathEnv = "STORE_TEST_PATH"
)

func TestMain(m *testing.M) {
	switch os.Getenv(childEnv) {
	case "hold":
		os.Exit(hold(os.Getenv(childPathEnv)))
	case "write":
		os.Exit(writeForever(os.Getenv(childPathEnv)))
	}
	os.Exit(m.Run())
}

// hold keeps a store open until standard input ends.
func hold(path string) int {
	s, err := store.Open(path, store.Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer s.Close()
	fmt.Println("open")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}

const virtualServers = 500

// writeForever commits one configuration after the other, each all of the virtual servers with the revision as their
// limit, and prints each revision that is done.
func writeForever(path string) int {
	s, err := store.Open(path, store.Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	for {
		n := s.Newest()
		r, err := s.Commit(context.Background(), store.Commit{Base: n.Revision, Changes: site(uint32(n.Revision + 1))})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		fmt.Println(r.GetNumber())
	}
}

func site(mark uint32) []config.Change {
	changes := make([]config.Change, virtualServers)
	for i := range changes {
		address := fmt.Sprintf("10.%d.%d.1:80", i/250, i%250)
		changes[i] = config.Change{Key: "virtual/" + address, New: &pb.Object{Kind: &pb.Object_Virtual{Virtual: &pb.VirtualServer{
			Address: address, Limit: proto.Uint32(mark), Pools: []*pb.WeightedPool{{Pool: "web"}},
		}}}}
	}
	return changes
}

// marks returns the limits that virtual servers of the site have, and how many each.
func marks(v config.View) map[uint32]int {
	found := map[uint32]int{}
	v.Range("virtual", func(o *pb.Object) bool {
		found[o.GetVirtual().GetLimit()]++
		return true
	})
	return found
}

// TestKill ends a process in the middle of commits of many virtual servers: the store holds the last commit that was
// reported or the one that was under way, whole.
func TestKill(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "config.db")
	for range 10 {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), childEnv+"=write", childPathEnv+"="+path)
		child.Stderr = os.Stderr
		out, err := child.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(out)
		first, err := lines.ReadString('\n') // it is at work
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(rand.IntN(40)) * time.Millisecond)
		if err := child.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		rest, err := io.ReadAll(lines)
		if err != nil {
			t.Fatal(err)
		}
		_ = child.Wait() // it was killed
		reported := strings.Fields(first + string(rest))
		last, err := strconv.ParseUint(reported[len(reported)-1], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		checkSite(t, path, last)
	}
}

// checkSite wants the site whole, as of revision last or the one after it, and the revision before it in the history.
func checkSite(t *testing.T, path string, last uint64) {
	t.Helper()
	s, err := store.Open(path, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	n := s.Newest()
	if n.Revision != last && n.Revision != last+1 {
		t.Errorf("revision %d was reported, the store holds %d", last, n.Revision)
	}
	if got := marks(n.Tree); len(got) != 1 || got[uint32(n.Revision)] != virtualServers {
		t.Errorf("revision %d holds %v", n.Revision, got)
	}
	if n.Revision > 1 {
		tree, err := s.At(n.Revision - 1)
		if err != nil {
			t.Fatal(err)
		}
		if got := marks(tree); len(got) != 1 || got[uint32(n.Revision-1)] != virtualServers {
			t.Errorf("revision %d was %v", n.Revision-1, got)
		}
	}
}
