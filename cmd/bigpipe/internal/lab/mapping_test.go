package lab

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	pb "bigpipe/proto/bigpipe/v1"
)

func pool(name string, members ...string) *pb.Object {
	p := &pb.Pool{Name: name}
	for _, m := range members {
		p.Members = append(p.Members, &pb.Member{Address: m})
	}
	return &pb.Object{Kind: &pb.Object_Pool{Pool: p}}
}

func virtual(address string) *pb.Object {
	return &pb.Object{Kind: &pb.Object_Virtual{Virtual: &pb.VirtualServer{Address: address}}}
}

func TestMappingFile(t *testing.T) {
	objects := []*pb.Object{
		pool("web", "10.1.1.1:80", "10.1.1.1:8080", "10.1.1.2:443", "192.168.1.1:81"),
		pool("app", "10.1.1.2:443"),
		virtual("192.168.1.1:80"),
		virtual("0.0.0.0:0"),
		virtual("[2001:db8::1]:443"),
	}
	m, err := NewMapping(objects)
	if err != nil {
		t.Fatal(err)
	}
	want := `10.1.1.1:8080=127.20.0.1:8080
192.168.1.1:80=127.10.0.1:8080
0.0.0.0:0=127.10.0.2:8000
[2001:db8::1]:443=127.10.0.3:8443
10.1.1.1:80=127.20.0.1:8081
10.1.1.2:443=127.20.0.2:8443
192.168.1.1:81=127.10.0.1:8081
10.1.1.1=127.20.0.1
192.168.1.1=127.10.0.1
0.0.0.0=127.10.0.2
2001:db8::1=127.10.0.3
10.1.1.2=127.20.0.2
`
	if diff := cmp.Diff(want, m.File()); diff != "" {
		t.Errorf("map file (-want +got):\n%s", diff)
	}
	members := []Member{
		{Node: "10.1.1.1:80", Local: "127.20.0.1:8081", Pools: []string{"web"}},
		{Node: "10.1.1.1:8080", Local: "127.20.0.1:8080", Pools: []string{"web"}},
		{Node: "10.1.1.2:443", Local: "127.20.0.2:8443", Pools: []string{"web", "app"}, TLS: true},
		{Node: "192.168.1.1:81", Local: "127.10.0.1:8081", Pools: []string{"web"}},
	}
	if diff := cmp.Diff(members, m.Members(objects)); diff != "" {
		t.Errorf("members (-want +got):\n%s", diff)
	}
}

func TestMappingHasNoCollisions(t *testing.T) {
	var objects []*pb.Object
	for _, port := range []string{"1", "79", "80", "81", "8079", "8080", "8081", "8082", "65535"} {
		objects = append(objects, virtual("192.0.2.1:"+port))
	}
	m, err := NewMapping(objects)
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for _, o := range objects {
		local, ok := m.Local(o.GetVirtual().GetAddress())
		if !ok {
			t.Fatalf("%s is not mapped", o.GetVirtual().GetAddress())
		}
		if other, ok := seen[local.String()]; ok {
			t.Errorf("%s and %s both live at %s", other, o.GetVirtual().GetAddress(), local)
		}
		seen[local.String()] = o.GetVirtual().GetAddress()
	}
}

func TestMappingRefusesTooManyMembers(t *testing.T) {
	var objects []*pb.Object
	for range MaxMembers + 1 {
		objects = append(objects, pool("p", "10.1.1.1:80"))
	}
	if _, err := NewMapping(objects); err == nil {
		t.Error("no error for more members than a lab can play")
	}
}
