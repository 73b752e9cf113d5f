// SPDX-License-Identifier: Apache-2.0

package ingest

import "testing"

func TestAsPublishedNamesWhatClientsUsed(t *testing.T) {
	for text, want := range map[string]string{
		"orders.new":                  "orders.new",
		"_hf.in.ORDERS.orders.new":    "orders.new",
		"_hf.in.ORDERS-2.orders":      "orders",
		"_hf.ack.JOBS.work.1.2.3.4.5": "$JS.ACK.JOBS.work.1.2.3.4.5",
		"_hf.out.orders.new":          "_hf.out.orders.new",
		"_hf.in.ORDERS":               "_hf.in.ORDERS",
		"orders._hf.in.ORDERS.x":      "orders._hf.in.ORDERS.x",
		"orders_hf.ack.JOBS":          "orders_hf.ack.JOBS",
		`no room for "_hf.in.A.b", [_hf.in.C.d] and _hf.ack.E.f`: `no room for "b", [d] and $JS.ACK.E.f`,
	} {
		if got := AsPublished(text); got != want {
			t.Errorf("AsPublished(%q): got %q, want %q", text, got, want)
		}
	}
}

// Whatever a mapping makes of a subject is led back.
func TestAsPublishedUndoesMappings(t *testing.T) {
	lanes := []Lane{{Stream: "ORDERS", Subjects: []string{"orders.new", "bills.>"}}}
	for _, m := range Mappings("secret", lanes)[1:] {
		if got := AsPublished(m.To); got != m.From {
			t.Errorf("AsPublished(%q): got %q, want %q", m.To, got, m.From)
		}
	}
}
