package tlshello

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"testing"
)

// TestVectors reads made and captured hellos, and finds what is written beside them, however they are cut.
func TestVectors(t *testing.T) {
	text, err := os.ReadFile("testdata/expected.json")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]struct {
		Kind         string `json:"kind"`
		SessionID    string `json:"session_id"`
		TicketSHA256 string `json:"ticket_sha256"`
		TicketLen    *int   `json:"ticket_len"`
		OffersTLS13  bool   `json:"offers_tls13"`
		PSK          bool   `json:"psk"`
		TLS13        bool   `json:"tls13"`
	}
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	if len(all) < 30 {
		t.Fatalf("only %d vectors", len(all))
	}
	for name, want := range all {
		t.Run(name, func(t *testing.T) {
			b := vector(t, name)
			client := fmt.Sprintf("complete id=%s tls13=%t psk=%t", want.SessionID, want.OffersTLS13, want.PSK)
			if want.TicketLen != nil && *want.TicketLen > 0 {
				client += " ticket=" + want.TicketSHA256
			}
			read, text := readClient, client
			switch want.Kind {
			case "client", "v2client":
			case "bad_id_length":
				text = "malformed id= tls13=false psk=false"
			case "server":
				done := want.TLS13 || name[:len("tls12_ticket_0")] != "tls12_ticket_0"
				read, text = readServer, fmt.Sprintf("hello=true id=%s tls13=%t done=%t", want.SessionID, want.TLS13, done)
			case "alert":
				read, text = readServer, "hello=false id= tls13=false done=true"
			default:
				t.Fatalf("what is a %s?", want.Kind)
			}
			if got := read(b); got != text {
				t.Errorf("found %s, want %s", got, text)
			}
			everySplit(t, b, read)
		})
	}
}

// TestCapturedTicket: the ID of a client that resumes by ticket is what the key of the ticket is too.
func TestCapturedTicket(t *testing.T) {
	var c Client
	c.Feed(vector(t, "tls12_ticket_1_clienthello.hex"))
	if sum, ok := c.Ticket(); !ok || hex.EncodeToString(c.ID()) != hex.EncodeToString(sum[:]) {
		t.Errorf("ticket %t %x, ID %x", ok, sum, c.ID())
	}
	var min Client
	min.Feed(vector(t, "min_ch_ticket.hex"))
	if sum, ok := min.Ticket(); !ok || sum != sha256.Sum256([]byte("TICK")) {
		t.Errorf("ticket %t %x", ok, sum)
	}
}
