package mgmtd

import (
	"fmt"
	"net/netip"

	"bigpipe/grammar/eval"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

// failover tells the state of the unit. There is one unit, which is active: making it that is nothing to do, and standby was refused.
func (e *execution) failover(op eval.Operation) error {
	if !e.json() {
		if words(op.Words) != "show" {
			return nil
		}
		_, err := fmt.Fprintln(e.out, "active")
		return err
	}
	unit := max(1, config.Globals(e.server.store.Newest().Tree).GetUnit())
	return writeJSON(e.out, struct {
		Unit  uint32 `json:"unit"`
		State string `json:"state"`
	}{unit, "active"})
}

// unableToFailover says why the unit does not become what it is told to.
func unableToFailover(op eval.Operation) *refusal {
	if words(op.Words) != "standby" {
		return nil
	}
	return &refusal{
		exit: pb.ExitRefused, code: codeRefused,
		message: "there is no other unit that could take over: this one stays active",
	}
}

// makeCookie prints the value of a cookie that names a member (rule C-1), for servers that set it themselves.
func (e *execution) makeCookie(op eval.Operation) error {
	member := words(op.Words)
	address, err := netip.ParseAddrPort(member)
	if err != nil {
		return e.refuse(pb.ExitFaulty, codeRefused, "%v", err)
	}
	value := e.server.cookie(address)
	if e.json() {
		return writeJSON(e.out, struct {
			Member string `json:"member"`
			Value  string `json:"value"`
		}{member, value})
	}
	_, err = fmt.Fprintln(e.out, value)
	return err
}
