package eval

import (
	"fmt"

	"google.golang.org/protobuf/proto"

	"bigpipe/grammar"
	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

// nodeListPool names the pool that stands for the node list of a virtual server (rule B-18).
func nodeListPool(virtual string) string {
	address, port, _ := config.SplitAddress(virtual)
	return fmt.Sprintf("appgen_%s.%d", address, port)
}

// useNodeList turns the node list of a virtual server into a pool that it uses (rule B-18). A pool of that name is replaced.
func (e *evaluator) useNodeList(s *grammar.Statement, v *pb.VirtualServer) {
	p := proto.CloneOf(s.NodeList)
	p.Name = nodeListPool(v.GetAddress())
	if p.LbMode == nil {
		p.LbMode = pb.LbMode_LB_MODE_ROUND_ROBIN.Enum()
	}
	if p.GetMeta().GetPosition() == nil {
		meta := &pb.Meta{Position: config.Position(s.Position), Attributes: p.GetMeta().GetAttributes()}
		p.Meta = meta
	}
	v.Pools = []*pb.WeightedPool{{Pool: p.Name}}
	v.Rule, v.Forward = nil, nil
	key := "pool/" + p.Name
	if t := e.touched[key]; e.options.Mode != ModeCommand && t != nil && t.first != nil {
		e.duplicate(s, t.first, key)
		return
	}
	e.replace(s, &pb.Object{Kind: &pb.Object_Pool{Pool: p}})
}
