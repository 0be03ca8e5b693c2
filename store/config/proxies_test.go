package config

import (
	"net/netip"
	"testing"

	"google.golang.org/protobuf/proto"

	pb "bigpipe/proto/bigpipe/v1"
)

func TestMapProxies(t *testing.T) {
	g := &pb.Global{MapProxies: []*pb.MapProxy{
		{Network: "10.0.0.0/8", Address: "1.1.1.1"},
		{Network: "10.9.0.0/16", Address: "2.2.2.2"},
		{Network: "10.9.9.9", Address: "::ffff:3.3.3.3"},
		{Network: "2001:db8::/32", Address: "4.4.4.4"},
	}}
	for client, want := range map[string]string{
		"10.1.2.3": "1.1.1.1", "10.9.1.1": "2.2.2.2", "10.9.9.9": "3.3.3.3", "::ffff:10.9.9.9": "3.3.3.3",
		"2001:db8::7%eth0": "4.4.4.4", "11.0.0.1": "11.0.0.1", "2001:db9::7": "2001:db9::7",
	} {
		if got, mapped := MapProxiesOf(g).Map(netip.MustParseAddr(client)); got.String() != want || mapped != (client != want) {
			t.Errorf("%s counts as %s (%t), want %s", client, got, mapped, want)
		}
	}
	g.PersistMapProxies = proto.Bool(false)
	if list := MapProxiesOf(g); list != nil {
		t.Errorf("out of effect: %v", list)
	}
	list := globalOf(&pb.Global{Meta: meta(2, "map_proxy"), MapProxies: []*pb.MapProxy{
		{Network: "10.0.0.0/33", Address: "1.1.1.1"}, {Network: "10.0.0.7/8", Address: "host"}, {Network: "10.0.0.0/8", Address: "1.1.1.1"},
	}})
	want := "value 2:4 global: map_proxy: \"10.0.0.0/33\" is neither an address nor a network\n" +
		"value 2:4 global: map_proxy: \"host\" is not an address\nduplicate 2:4 global: map_proxy: network 10.0.0.0/8 is given twice\n"
	if got := text(Validate(NewTree(list), nil)); got != want {
		t.Errorf("%s", got)
	}
}
