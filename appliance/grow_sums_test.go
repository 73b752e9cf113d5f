// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-mq/holdfast/appliance/admin"
	"github.com/holdfast-mq/holdfast/appliance/engine"
	"github.com/holdfast-mq/holdfast/bootstrap/identity"
)

func TestGrowthSumsGoUpToATotalThatStays(t *testing.T) {
	none := map[string]any{}
	orders := engine.Inventory{Account: "shop", Stream: "ORDERS", Bytes: 60 << 20, Consumers: map[string]map[string]any{"mail": none, "pack": none}}
	jobs := engine.Inventory{Account: "shop", Stream: "JOBS", Bytes: 40 << 20}
	own := engine.Inventory{Account: identity.InternalName, Stream: "REVISIONS", Bytes: 7 << 20, Consumers: map[string]map[string]any{"own": none}}
	sums := newGrowthSums([]engine.Inventory{own, orders, jobs})
	const total = 100<<20 + 4<<20 // four streams and consumers beside the bytes
	looks := []struct {
		name    string
		look    func()
		step    admin.GrowStep
		current string
		want    [3]int64 // streams, consumers, MiB that are done
	}{
		{"nothing", func() {}, admin.GrowCopies, "shop/ORDERS", [3]int64{0, 0, 0}},
		{"that of Holdfast", func() { sums.copied(own, nil) }, admin.GrowCopies, "shop/ORDERS", [3]int64{0, 0, 0}},
		{"some bytes", func() { sums.stored(20 << 20) }, admin.GrowCopies, "shop/ORDERS", [3]int64{0, 0, 20}},
		{"a worker removed some", func() { sums.stored(10 << 20) }, admin.GrowCopies, "shop/ORDERS", [3]int64{0, 0, 20}},
		{"a stream", func() { sums.copied(jobs, nil) }, admin.GrowCopies, "shop/ORDERS", [3]int64{1, 0, 40}},
		{"publishers go on", func() { sums.stored(200 << 20) }, admin.GrowCopies, "shop/ORDERS", [3]int64{1, 0, 100}},
		{"streams without consumers", func() { sums.copied(orders, []string{"mail", "pack"}) }, admin.GrowConsumers, "shop/ORDERS/mail", [3]int64{2, 0, 100}},
		{"a stream is behind again", func() { sums.copied(orders, []string{"", "mail", "pack"}) }, admin.GrowConsumers, "shop/ORDERS/mail", [3]int64{2, 0, 100}},
		{"a consumer", func() { sums.copied(orders, []string{"pack"}) }, admin.GrowConsumers, "shop/ORDERS/pack", [3]int64{2, 1, 100}},
		{"everything", func() { sums.copied(orders, nil) }, admin.GrowConsumers, "", [3]int64{2, 2, 100}},
	}
	lines := map[string]bool{}
	before := int64(0)
	for _, l := range looks {
		l.look()
		var got admin.Growth
		sums.tell(&got)
		want := admin.Growth{
			Streams: 2, StreamsDone: int(l.want[0]), Consumers: 2, ConsumersDone: int(l.want[1]),
			Bytes: 100 << 20, BytesDone: l.want[2] << 20, Current: l.current,
		}
		if diff := cmp.Diff(want, got); diff != "" || sums.step() != l.step {
			t.Errorf("%s: got step %s, want %s, and (-want +got)\n%s", l.name, sums.step(), l.step, diff)
		}
		done, all := got.Work()
		if done < before || all != total {
			t.Errorf("%s: got %d of %d, want at least %d of %d", l.name, done, all, before, total)
		}
		before = done
		lines[sums.line()] = true
	}
	if before != total {
		t.Errorf("got %d at the end, want %d", before, total)
	}
	if len(lines) != 7 { // one for each look at which something changed
		t.Errorf("got lines %v, want seven", lines)
	}
}
