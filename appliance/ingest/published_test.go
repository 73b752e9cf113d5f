// SPDX-License-Identifier: Apache-2.0

package ingest

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

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

func TestReplicatedIsTheInverseOfMappings(t *testing.T) {
	for name, lanes := range map[string][]Lane{
		"none":                  nil,
		"one":                   {{Stream: "ORDERS", Subjects: []string{"orders.new"}}},
		"several subjects":      {{Stream: "ORDERS", Subjects: []string{"orders.>", "bills.*.new.*", "*.cash"}}},
		"several streams":       {{Stream: "A", Subjects: []string{"a"}}, {Stream: "A-2", Subjects: []string{"a.>"}}, {Stream: "B_hf", Subjects: []string{"b", "c"}}},
		"a consumer":            {{Stream: "JOBS", Subjects: []string{"jobs.*"}, Consumer: "work-1"}},
		"a consumer of several": {{Stream: "A", Subjects: []string{"a", "b"}, Consumer: "c"}, {Stream: "B", Subjects: []string{"d"}}},
	} {
		mappings := Mappings(labSecret, lanes)
		want := slices.Clone(lanes)
		for i := range want {
			want[i].Replicated = true
		}
		if diff := cmp.Diff(want, Replicated(mappings)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		// Tokens keep them in no order.
		slices.Reverse(mappings)
		got := Replicated(mappings)
		for _, l := range got {
			slices.Sort(l.Subjects)
		}
		for _, l := range want {
			slices.Sort(l.Subjects)
		}
		slices.Reverse(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s, backwards (-want +got):\n%s", name, diff)
		}
	}
}
