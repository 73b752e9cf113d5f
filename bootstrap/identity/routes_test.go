// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"cmp"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/holdfast-mq/holdfast/bootstrap/identity"
)

func TestRoutesReturnsWhatRouteSet(t *testing.T) {
	f, _ := newFile(t)
	id := open(t, f)
	apply(t, id, account("shop", "checkout"), account("bank", "teller"), account("idle", "nobody"))
	orders := identity.Mapping{From: "orders.*.new", To: "_hf.in.ORDERS.orders.{{wildcard(1)}}.new"}
	out := identity.Mapping{From: "_hf.out.secret.>", To: ">"}
	acks := identity.Mapping{From: "$JS.ACK.JOBS.work.>", To: "_hf.ack.JOBS.work.>"}
	for _, step := range []struct {
		name    string
		want    map[string][]identity.Mapping
		changes bool
	}{
		{"two accounts", map[string][]identity.Mapping{"shop": {orders, out}, "bank": {acks}}, true},
		{"the same", map[string][]identity.Mapping{"shop": {out, orders}, "bank": {acks}}, false},
		{"one account less, one mapping less", map[string][]identity.Mapping{"shop": {out}}, true},
		{"none", map[string][]identity.Mapping{}, true},
	} {
		changed, err := id.Route(step.want)
		if err != nil || changed != step.changes {
			t.Fatalf("%s: got changed %v, error %v, want %v", step.name, changed, err, step.changes)
		}
		// Another process reads what this one wrote.
		for where, id := range map[string]*identity.Identity{"here": id, "from disk": open(t, f)} {
			got, err := id.Routes()
			if err != nil {
				t.Fatal(err)
			}
			for _, routes := range []map[string][]identity.Mapping{got, step.want} {
				for _, list := range routes {
					slices.SortFunc(list, func(a, b identity.Mapping) int { return cmp.Compare(a.From, b.From) })
				}
			}
			if diff := gocmp.Diff(step.want, got); diff != "" {
				t.Errorf("%s, %s (-want +got):\n%s", step.name, where, diff)
			}
		}
	}
}
