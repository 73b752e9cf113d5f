// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/jwt/v2"
)

func TestIntersectIsWhatBothPatternsMatch(t *testing.T) {
	for _, c := range []struct{ a, b, want string }{
		{"orders.>", "orders.>", "orders.>"},
		{"orders.new", "orders.>", "orders.new"},
		{"orders.>", "orders.new", "orders.new"},
		{"*.new", "orders.*", "orders.new"},
		{"*.*", "orders.>", "orders.*"},
		{">", "orders.*", "orders.*"},
		{"*.>", "orders.>", "orders.>"},
		{"orders", "orders.>", ""},
		{"orders.>", "orders", ""},
		{"orders.a.b", "orders.*", ""},
		{"bills.>", "orders.>", ""},
	} {
		for _, p := range [][2]string{{c.a, c.b}, {c.b, c.a}} {
			got, ok := Intersect(p[0], p[1])
			if got != c.want || ok != (c.want != "") {
				t.Errorf("Intersect(%q, %q): got %q, %v, want %q", p[0], p[1], got, ok, c.want)
			}
		}
	}
}

func TestPermissionsFollowWhereMessagesAreLed(t *testing.T) {
	mappings := jwt.Mapping{
		"orders.*.new":        {{Subject: "_hf.in.ORDERS.orders.{{wildcard(1)}}.new", Weight: 100}},
		"bills.>":             {{Subject: "_hf.in.BILLS.bills.>", Weight: 100}},
		"_hf.out.secret.>":    {{Subject: ">", Weight: 100}},
		"$JS.ACK.JOBS.dull.>": {{Subject: "_hf.ack.JOBS.dull.>", Weight: 100}},
	}
	for _, c := range []struct {
		name        string
		allow, want jwt.StringList
	}{
		{"nothing", nil, nil},
		{"everything", jwt.StringList{">"}, jwt.StringList{">"}},
		{"elsewhere", jwt.StringList{"logs.>"}, jwt.StringList{"logs.>"}},
		{"a literal", jwt.StringList{"orders.de.new"}, jwt.StringList{"_hf.in.ORDERS.orders.de.new", "orders.de.new"}},
		{"a wildcard", jwt.StringList{"orders.>"}, jwt.StringList{"_hf.in.ORDERS.orders.*.new", "orders.>"}},
		{"a rest", jwt.StringList{"bills.de.>"}, jwt.StringList{"_hf.in.BILLS.bills.de.>", "bills.de.>"}},
		{"all of two tokens and more, and not the way back", jwt.StringList{"*.>"},
			jwt.StringList{"*.>", "_hf.ack.JOBS.dull.>", "_hf.in.BILLS.bills.>", "_hf.in.ORDERS.orders.*.new"}},
		{"acknowledgements", jwt.StringList{"$JS.ACK.JOBS.dull.>"}, jwt.StringList{"$JS.ACK.JOBS.dull.>", "_hf.ack.JOBS.dull.>"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, led(c.allow, mappings)); diff != "" {
				t.Errorf("permissions (-want +got):\n%s", diff)
			}
		})
	}
}
