// SPDX-License-Identifier: Apache-2.0

package bootstrap_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/bootstrap"
)

// revisions makes a history of digests; those with a ? were not finished, those with
// a = changed nothing.
func revisions(digests ...string) bootstrap.History {
	var h bootstrap.History
	for i, d := range digests {
		name := strings.TrimRight(d, "?=")
		h = append(h, bootstrap.Revision{ID: uint64(i + 1), Digest: name, Done: name+"?" != d, Unchanged: name+"=" == d})
	}
	return h
}

func TestStaleIsWhatWasAppliedBeforeAndReplacedSince(t *testing.T) {
	for _, c := range []struct {
		history     []string
		digest      string
		old, latest uint64 // 0: not stale
	}{
		{nil, "a", 0, 0},
		{[]string{"a"}, "a", 0, 0},
		{[]string{"a"}, "b", 0, 0},
		{[]string{"a", "b"}, "a", 1, 2},
		{[]string{"a", "b"}, "b", 0, 0},
		{[]string{"a", "b"}, "c", 0, 0},
		{[]string{"a", "b", "a"}, "a", 0, 0}, // went back on purpose
		{[]string{"a", "b", "a"}, "b", 2, 3},
		{[]string{"a", "b", "a", "c"}, "a", 3, 4},
		{[]string{"a", "b?"}, "a", 1, 2}, // b may have come far
		{[]string{"a", "b="}, "a", 0, 0}, // all of b was held back: there is nothing to undo
		{[]string{"a", "b="}, "b", 0, 0},
		{[]string{"a", "b=", "c="}, "a", 0, 0},
		{[]string{"a", "b=", "c="}, "b", 0, 0},
		{[]string{"a", "b", "c="}, "a", 1, 2}, // c did nothing, b did
		{[]string{"a", "b=", "c"}, "a", 1, 3},
		{[]string{"b=", "c"}, "b", 1, 2},
		{[]string{"a", "b?"}, "b", 0, 0},
		{[]string{"a?", "b"}, "a", 1, 2},
		{[]string{"a", "a"}, "a", 0, 0},
	} {
		old, latest, stale := revisions(c.history...).Stale(c.digest)
		if old.ID != c.old || latest.ID != c.latest || stale != (c.old != 0) {
			t.Errorf("%v after %v: got %d, %d, %t, want %d, %d, %t", c.digest, c.history, old.ID, latest.ID, stale, c.old, c.latest, c.old != 0)
		}
	}
}

func TestPendingIsALatestThatWasNotFinished(t *testing.T) {
	for _, c := range []struct {
		history []string
		latest  uint64
		pending uint64
	}{
		{nil, 0, 0},
		{[]string{"a"}, 1, 0},
		{[]string{"a", "b?"}, 2, 2},
		{[]string{"a?", "b"}, 2, 0},
	} {
		h := revisions(c.history...)
		latest, hasLatest := h.Latest()
		pending, isPending := h.Pending()
		if latest.ID != c.latest || hasLatest != (c.latest != 0) || pending.ID != c.pending || isPending != (c.pending != 0) {
			t.Errorf("%v: got latest %d %t, pending %d %t, want %d and %d", c.history, latest.ID, hasLatest, pending.ID, isPending, c.latest, c.pending)
		}
	}
}

func TestAppliedLeavesOutWhatWasBegunSinceAndMayBeHalfDone(t *testing.T) {
	h := revisions("a", "b", "c?", "d?", "e?")
	h[0].Objects = map[string]string{"m/OLD": "1"}
	h[1].Objects = map[string]string{"m/KEPT": "1", "m/CHANGED": "1", "m/BACK": "1", "m/GONE": "1"}
	h[2].Objects = map[string]string{"m/KEPT": "1", "m/CHANGED": "2", "m/BACK": "2", "m/GONE": "1", "m/NEW": "1"}
	// h[3] has none: its beginning was cut short.
	h[4].Objects = map[string]string{"m/KEPT": "1", "m/CHANGED": "2", "m/BACK": "1", "m/NEW": "1"}
	if diff := cmp.Diff(map[string]string{"m/KEPT": "1"}, h.Applied()); diff != "" {
		t.Errorf("got other objects (-want +got):\n%s", diff)
	}
	if got := len(h[1].Objects); got != 4 {
		t.Errorf("got %d objects in the history afterwards, want the 4 from before", got)
	}
	if diff := cmp.Diff(h[1].Objects, h[:2].Applied()); diff != "" {
		t.Errorf("finished: got other objects (-want +got):\n%s", diff)
	}
	if got := revisions("a?").Applied(); got != nil {
		t.Errorf("nothing finished: got %v, want none", got)
	}
}

const shopText = `
accounts:
  shop:
    streams:
      ORDERS:
        max_bytes: 1GiB
        subjects: [orders.>]
        subject_transform: {src: orders.>, dest: o.>}
        consumers:
          pack: {ack_wait: 30s, filter_subject: o.pack}
          bill: {filter_subject: o.bill}
      LOG: {max_bytes: 1MiB}
  line: {}
`

// topology reads a file with the text.
func topology(t *testing.T, name, text string) bootstrap.Topology {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, l := config.Load(config.Options{File: file})
	if len(l) > 0 {
		t.Fatalf("got %v, want no problems", l)
	}
	return bootstrap.FromConfig(cfg, 1)
}

func TestDigestIsOfWhatIsAskedForAndNotOfTheText(t *testing.T) {
	const same = `# the shop
accounts: {line: {}, shop: {streams: {

  LOG: {max_bytes: 1024KiB},
  ORDERS: {subject_transform: {dest: o.>, src: orders.>}, subjects: ["orders.>"], max_bytes: 1GiB, consumers: {
    bill: {filter_subject: o.bill}, pack: {filter_subject: o.pack, ack_wait: 0.5m}}}}}}
`
	one, other := topology(t, "a.yaml", shopText), topology(t, "b.yaml", same)
	if got, want := bootstrap.Digest(other, nil), bootstrap.Digest(one, nil); got != want {
		t.Errorf("got digest %s for the other text, want %s as of the first", got, want)
	}
	if diff := cmp.Diff(one.Objects(), other.Objects()); diff != "" {
		t.Errorf("got other objects (-first +other):\n%s", diff)
	}
}

func TestDigestChangesWithEverythingThatIsApplied(t *testing.T) {
	seen := map[string]string{}
	add := func(what, digest string) {
		if before, ok := seen[digest]; ok {
			t.Errorf("%s: got digest %s, which %s has too", what, digest, before)
		}
		seen[digest] = what
	}
	one := topology(t, "f.yaml", shopText)
	add("the first", bootstrap.Digest(one, nil))
	add("users", bootstrap.Digest(one, []string{"ann"}))
	add("other users", bootstrap.Digest(one, []string{"ann", "bob"}))
	add("what has no JSON", bootstrap.Digest(one, make(chan int)))
	add("something else that has none", bootstrap.Digest(one, func() {}))
	for what, change := range map[string]func(*bootstrap.Topology){
		"field of a stream": func(x *bootstrap.Topology) { x.Accounts[1].Streams[0].Set["max_bytes"] = json.Number("5") },
		"field of a consumer": func(x *bootstrap.Topology) {
			x.Accounts[1].Streams[1].Consumers[0].Set["max_deliver"] = json.Number("5")
		},
		"name of a stream":   func(x *bootstrap.Topology) { x.Accounts[1].Streams[0].Name = "LOGS" },
		"name of a consumer": func(x *bootstrap.Topology) { x.Accounts[1].Streams[1].Consumers[0].Name = "x" },
		"fewer consumers":    func(x *bootstrap.Topology) { x.Accounts[1].Streams[1].Consumers = nil },
		"fewer streams":      func(x *bootstrap.Topology) { x.Accounts[1].Streams = x.Accounts[1].Streams[:1] },
		"name of an account": func(x *bootstrap.Topology) { x.Accounts[1].Name = "store" },
		"fewer accounts":     func(x *bootstrap.Topology) { x.Accounts = x.Accounts[1:] },
	} {
		changed := topology(t, "f.yaml", shopText)
		change(&changed)
		add(what, bootstrap.Digest(changed, nil))
	}
}

func TestObjectsAreNamedAsActionsAre(t *testing.T) {
	have := topology(t, "f.yaml", shopText)
	objects := have.Objects()
	for _, a := range []bootstrap.Action{
		{Kind: bootstrap.KindStream, Account: "shop", Stream: "LOG"},
		{Kind: bootstrap.KindStream, Account: "shop", Stream: "ORDERS"},
		{Kind: bootstrap.KindConsumer, Account: "shop", Stream: "ORDERS", Consumer: "bill"},
		{Kind: bootstrap.KindConsumer, Account: "shop", Stream: "ORDERS", Consumer: "pack"},
	} {
		if objects[a.Path()] == "" {
			t.Errorf("got no object %s in %v, want one", a.Path(), objects)
		}
	}
	if len(objects) != 4 {
		t.Errorf("got %d objects, want 4", len(objects))
	}
	have.Accounts[1].Streams[1].Consumers[1].Set["max_deliver"] = json.Number("5")
	have.Accounts[1].Streams[1].Set["unset"] = nil
	changed := have.Objects()
	if changed["shop/ORDERS"] != objects["shop/ORDERS"] || changed["shop/ORDERS/pack"] == objects["shop/ORDERS/pack"] {
		t.Errorf("got %v, want only the consumer's digest other than in %v", changed, objects)
	}
}

// TestStreamsOfAClusterTakeNoBatchesUnasked: those of a single node do, for group commit.
func TestStreamsOfAClusterTakeNoBatchesUnasked(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(strings.Repeat("s", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	const accounts = `accounts: {shop: {streams: {S: {subjects: [s], max_bytes: 1MiB}, ASKED: {subjects: [a], max_bytes: 1MiB, allow_atomic: true}}}}
`
	const listen = "listen: {client: \"127.0.0.1:4222\", http: \"127.0.0.1:8222\"}\n"
	cluster := "cluster: {name: c, listen: \"127.0.0.1:6222\", peers: [\"127.0.0.1:6222\", \"127.0.0.1:6232\", \"127.0.0.1:6242\"], secret: \"file:" + secret + "\"}\n"
	for _, c := range []struct {
		name, text string
		want       map[string]any
	}{
		{"one node", listen + accounts, map[string]any{"S": true, "ASKED": true}},
		{"a cluster", listen + cluster + accounts, map[string]any{"S": false, "ASKED": true}},
	} {
		got := map[string]any{}
		for _, s := range topology(t, "holdfast.yaml", c.text).Accounts[0].Streams {
			got[s.Name] = s.Set["allow_atomic"]
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: allow_atomic differs (-want +got):\n%s", c.name, diff)
		}
	}
}
