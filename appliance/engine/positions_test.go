// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestStartGoesOnWithoutADestroyedPosition is what a power cut leaves of a file that
// was not synced: the server neither recovers such a consumer nor makes it again.
func TestStartGoesOnWithoutADestroyedPosition(t *testing.T) {
	r := newRealm(t, "shop")
	s := r.settings(t)
	e := started(t, r, s, nil)
	fill(t, r, e, "shop", 3, 2)
	nc := connect(t, r, e, "shop")
	const create = `{"stream_name":"S0","config":{"name":"c","durable_name":"c","ack_policy":"explicit"}}`
	for _, stream := range []string{"S0", "S1", "S2"} {
		request(t, nc, "$JS.API.CONSUMER.CREATE."+stream+".c", `{"stream_name":"`+stream+`","config":{"name":"c","durable_name":"c","ack_policy":"explicit"}}`)
		// A position to write.
		if m, err := nc.Request("$JS.API.CONSUMER.MSG.NEXT."+stream+".c", nil, patience); err != nil || m.Reply == "" {
			t.Fatalf("got %v and %v, want a message", m, err)
		}
	}
	nc.Close()
	if err := e.Stop(); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(s.StoreDir, "jetstream", r.public(t, "shop"), "streams")
	for stream, left := range map[string][]byte{"S0": make([]byte, 40), "S1": {}} {
		path := filepath.Join(dir, stream, "obs", "c", positionFile)
		if damagedPosition(path, (*objectKey)(nil).unbox) {
			t.Fatalf("%s: got a damaged position from the server itself, want its own to be fine", path)
		}
		if err := os.WriteFile(path, left, 0o640); err != nil {
			t.Fatal(err)
		}
	}
	// One that is not even known any more, which a client or the file makes again.
	for _, file := range []string{"meta.inf", "meta.sum"} {
		if err := os.Remove(filepath.Join(dir, "S0", "obs", "c", file)); err != nil {
			t.Fatal(err)
		}
	}

	again := started(t, r, s, nil)
	if diff := cmp.Diff([]string{"shop/S0/c", "shop/S1/c"}, again.Progress().StartedOver); diff != "" {
		t.Errorf("consumers that start over (-want +got):\n%s", diff)
	}
	nc = connect(t, r, again, "shop")
	request(t, nc, "$JS.API.CONSUMER.CREATE.S0.c", create)
	for _, stream := range []string{"S0", "S1"} {
		if m, err := nc.Request("$JS.API.CONSUMER.MSG.NEXT."+stream+".c", nil, patience); err != nil || m.Reply == "" {
			t.Errorf("%s: got %v and %v, want the first message again", stream, m, err)
		}
	}
}
