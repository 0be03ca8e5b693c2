package bigpipev1

import "strings"

// ApplyProtocol is the version of what Apply carries (ApplyHeader.protocol). A dataplane refuses every other one.
const ApplyProtocol = 1

// DialTarget returns an address of a service, unix:///path or host:port, as gRPC dials it: a host's name is never taken for
// the name of one of gRPC's resolvers.
func DialTarget(address string) string {
	if strings.HasPrefix(address, "unix:") {
		return address
	}
	return "dns:///" + address
}
