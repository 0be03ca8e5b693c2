package pool

import (
	"sync/atomic"

	pb "bigpipe/proto/bigpipe/v1"
)

// Outcome says what a persistence method found, or did, for one decision. The word is what logs and statistics print.
type Outcome uint8

const (
	// OutcomeOff means that the pool has no persistence; it is not counted.
	OutcomeOff Outcome = iota
	// OutcomeNone means that the client brought nothing: no record, no cookie.
	OutcomeNone
	// OutcomeMalformed means that a cookie had the right name and no readable value, or that a hello of TLS cannot
	// be read.
	OutcomeMalformed
	// OutcomeUnknownMember means that what was found names no member of the pool.
	OutcomeUnknownMember
	// OutcomeNotTLS means that the client did not begin with a hello of TLS.
	OutcomeNotTLS
	// OutcomeDown means that the member takes nothing new, not even from its own clients.
	OutcomeDown
	// OutcomeDisabledHonoured means that the member is disabled and the client went there all the same.
	OutcomeDisabledHonoured
	// OutcomeOtherPool means that a shared record names a node that this pool does not have (rule B-7).
	OutcomeOtherPool
	// OutcomeTableFull means that no record could be made.
	OutcomeTableFull
	// OutcomeValid means that the client went where it belongs.
	OutcomeValid

	// OutcomeBound counts records and cookies that were made.
	OutcomeBound
	// OutcomeMoved counts records that were moved to another member.
	OutcomeMoved
	// OutcomeExpired counts cookies whose life was over, and records that ran out.
	OutcomeExpired
	// OutcomeEvicted counts records that made room for others. The table counts them.
	OutcomeEvicted
	// OutcomeCompressed counts pages whose links did not get the route, since they were compressed (rule J-23).
	OutcomeCompressed
	outcomes
)

var outcomeWords = [outcomes]string{
	"off", "none", "malformed", "unknown_member", "not_tls", "down", "disabled_honoured", "other_pool", "table_full",
	"valid", "bound", "moved", "expired", "evicted", "compressed",
}

// String returns the word.
func (o Outcome) String() string {
	if o < outcomes {
		return outcomeWords[o]
	}
	return "unknown"
}

// tally counts outcomes; one shard is two cache lines.
type tally struct {
	shards []tallyShard
}

type tallyShard struct {
	n [outcomes]atomic.Uint64
	_ [16 - outcomes]uint64
}

func newTally() *tally { return &tally{shards: make([]tallyShard, shards)} }

func (t *tally) add(s Shard, o Outcome) {
	if o != OutcomeOff {
		t.shards[s].n[o].Add(1)
	}
}

func (t *tally) sum(o Outcome) uint64 {
	var n uint64
	for i := range t.shards {
		n += t.shards[i].n[o].Load()
	}
	return n
}

func (t *tally) reset() {
	for i := range t.shards {
		for o := range t.shards[i].n {
			t.shards[i].n[o].Store(0)
		}
	}
}

func (t *tally) message() *pb.PersistOutcomes {
	return &pb.PersistOutcomes{
		None:             t.sum(OutcomeNone),
		Malformed:        t.sum(OutcomeMalformed),
		UnknownMember:    t.sum(OutcomeUnknownMember),
		Down:             t.sum(OutcomeDown),
		DisabledHonoured: t.sum(OutcomeDisabledHonoured),
		OtherPool:        t.sum(OutcomeOtherPool),
		TableFull:        t.sum(OutcomeTableFull),
		Valid:            t.sum(OutcomeValid),
		Bound:            t.sum(OutcomeBound),
		Moved:            t.sum(OutcomeMoved),
		NotTls:           t.sum(OutcomeNotTLS),
		Compressed:       t.sum(OutcomeCompressed),
	}
}
