package client

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	pb "bigpipe/proto/bigpipe/v1"
)

// State is what an operator should know before the next command.
type State struct {
	// Pending is the change that waits to be confirmed; nil when none does.
	Pending *pb.PendingChange
	// Dataplanes are all that mgmtd has.
	Dataplanes []*pb.DataplaneStatus
}

// State asks mgmtd for its state.
func (c *Client) State(ctx context.Context) (*State, error) {
	state := &State{}
	var failed error
	var asked sync.WaitGroup
	asked.Go(func() {
		if reply, err := c.Admin.ListDataplanes(ctx, &pb.ListDataplanesRequest{}); err != nil {
			failed = c.explain(err)
		} else {
			state.Dataplanes = reply.GetDataplanes()
		}
	})
	revisions, err := c.Admin.ListRevisions(ctx, &pb.ListRevisionsRequest{})
	asked.Wait()
	if err != nil {
		return nil, c.explain(err)
	}
	state.Pending = revisions.GetPending()
	return state, failed
}

// Names remembers the names of objects for a short time, so that completion does not wait for them at every key.
type Names struct {
	client *Client
	// life is how long they count as fresh; patience how long a question may take.
	life, patience time.Duration

	mu    sync.Mutex
	kinds map[string]*names
}

// names are the names of one kind, in order.
type names struct {
	list  []string
	asked time.Time
}

// NewNames returns names that are asked for again after life. A question that takes longer than patience is answered by what
// was known before.
func NewNames(c *Client, life, patience time.Duration) *Names {
	return &Names{client: c, life: life, patience: patience, kinds: map[string]*names{}}
}

// Of returns the names of the objects of a kind, in order. The caller must not change them.
func (n *Names) Of(ctx context.Context, kind string) []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	known := n.kinds[kind]
	if known != nil && time.Since(known.asked) < n.life {
		return known.list
	}
	ctx, cancel := context.WithTimeout(ctx, n.patience)
	defer cancel()
	list, err := n.client.Names(ctx, kind, "")
	switch {
	case err == nil:
		known = &names{list: list}
	case known == nil:
		known = &names{}
	}
	known.asked = time.Now()
	n.kinds[kind] = known
	return known.list
}

// Forget makes the next question go to mgmtd, as after a change.
func (n *Names) Forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, known := range n.kinds {
		known.asked = time.Time{}
	}
}

// Names returns the names of the objects of one kind that begin with prefix, in order.
func (c *Client) Names(ctx context.Context, kind, prefix string) ([]string, error) {
	first := kind + "/"
	stream, err := c.Admin.GetConfig(ctx, &pb.GetConfigRequest{Prefixes: []string{first + prefix}, KeysOnly: true})
	if err != nil {
		return nil, c.explain(err)
	}
	var names []string
	for {
		reply, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return names, nil
		}
		if err != nil {
			return nil, c.explain(err)
		}
		for _, key := range reply.GetKeys() {
			names = append(names, key[len(first):])
		}
	}
}
