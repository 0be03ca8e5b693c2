package config

import (
	"google.golang.org/protobuf/proto"

	pb "bigpipe/proto/bigpipe/v1"
)

// WholeClass returns a class with all that it holds in its own lists: what its file holds comes after what stands in the text.
func WholeClass(c *pb.Class) *pb.Class {
	held := c.GetContents()
	if held == nil {
		return c
	}
	whole := proto.CloneOf(c)
	whole.Contents = nil
	whole.Strings = append(whole.Strings, held.GetStrings()...)
	whole.Hosts = append(whole.Hosts, held.GetHosts()...)
	whole.Networks = append(whole.Networks, held.GetNetworks()...)
	return whole
}
