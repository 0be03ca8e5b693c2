package mgmtd

import (
	"fmt"
	"strings"
	"testing"

	pb "bigpipe/proto/bigpipe/v1"
	"bigpipe/store"
)

// largeSite is a file of n pools and n virtual servers.
func largeSite(n int) string {
	var text strings.Builder
	for i := range n {
		fmt.Fprintf(&text, "pool pool%d {\n   persist_mode simple\n   simple_timeout 300\n   member 10.1.%d.%d:80\n   member 10.2.%d.%d:80\n}\n",
			i, i/250, i%250+1, i/250, i%250+1)
	}
	for i := range n {
		fmt.Fprintf(&text, "virtual 10.3.%d.%d:80 { use pool pool%d }\n", i/250, i%250+1, i)
	}
	return text.String()
}

// BenchmarkExecute is what one text costs without the network, in a configuration of 20,000 objects. A load of it is wanted
// in effect within 5 s and a command within 50 ms, so that the dataplane's part fits in too.
func BenchmarkExecute(b *testing.B) {
	site := largeSite(10_000)
	load := &pb.ExecuteHeader{Mode: pb.ExecuteMode_EXECUTE_MODE_LOAD}
	command := &pb.ExecuteHeader{Mode: pb.ExecuteMode_EXECUTE_MODE_COMMAND}
	tests := []struct {
		name   string
		header *pb.ExecuteHeader
		text   func(i int) string
	}{
		{"load", load, func(i int) string { return fmt.Sprintf("%spool extra { member 10.9.9.9:%d }\n", site, i%60000+1) }},
		{"dry_run", &pb.ExecuteHeader{Mode: pb.ExecuteMode_EXECUTE_MODE_LOAD, DryRun: true}, func(int) string { return site + "pool extra { member 10.9.9.9:1 }\n" }},
		{"command", command, func(i int) string { return fmt.Sprintf("pool extra { member 10.9.9.9:%d }", i%60000+1) }},
	}
	s, err := store.Open(b.TempDir()+"/config.db", store.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	server, err := New(Config{Store: s})
	if err != nil {
		b.Fatal(err)
	}
	defer server.Close()
	if ds, err := server.Load(b.Context(), File{Name: "bigip.conf", Text: []byte(site)}); err != nil {
		b.Fatal(ds, err)
	}
	for _, test := range tests {
		b.Run(test.name, func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				test.header.Origin = &pb.Position{Line: 1, Column: 1}
				e := &execution{server: server, header: test.header, send: func(*pb.ExecuteReply) error { return nil }}
				e.out = &pieces{send: func([]byte) error { return nil }}
				if err := e.run(b.Context(), []byte(test.text(i))); err != nil || e.exit == pb.ExitFaulty {
					b.Fatal(err, e.exit)
				}
			}
		})
	}
}
