package pool

import (
	"fmt"
	"net/netip"
	"testing"

	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store/config"
)

// asked is a view that counts what costs as much as there are pools.
type asked struct {
	config.View
	ranges, referrers int
}

func (v *asked) Range(kind string, fn func(*pb.Object) bool) {
	v.ranges++
	v.View.Range(kind, fn)
}

func (v *asked) Referrers(key string, fn func(string) bool) {
	v.referrers++
	v.View.Referrers(key, fn)
}

// An update of many pools that have a member in common, and know each other's cookies, looks for the others once, not once for each;
// the next update looks anew.
func TestPoolsInCommon(t *testing.T) {
	const n = 20
	var objects []*pb.Object
	for i := range n {
		objects = append(objects, &pb.Object{Kind: &pb.Object_Pool{Pool: &pb.Pool{
			Name: fmt.Sprint("p", i), PersistMode: pb.PersistMode_PERSIST_MODE_COOKIE.Enum(), CookieAcrossServices: new(true),
			Members: []*pb.Member{{Address: "10.1.1.1:80"}},
		}}})
	}
	view := &asked{View: config.NewTree(objects...)}
	env := &Env{View: view}
	for range 2 {
		view.ranges, view.referrers = 0, 0
		for _, o := range objects {
			if _, reasons := Compile(o.GetPool(), env, nil); len(reasons) > 0 {
				t.Fatal(reasons)
			}
		}
		if view.ranges > 1 || view.referrers > 1 {
			t.Errorf("all pools were visited %d times, those of the member %d times", view.ranges, view.referrers)
		}
	}
	objects[0].GetPool().LbMode = pb.LbMode_LB_MODE_RESPONSE.Enum()
	if env.responds(netip.MustParseAddrPort("10.1.1.1:80")) {
		t.Error("a view changed")
	}
	env.View = config.NewTree(objects...)
	if !env.responds(netip.MustParseAddrPort("10.1.1.1:80")) {
		t.Error("the next view is not asked")
	}
}
