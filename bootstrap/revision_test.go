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
// a ~ carried out in part, those with a = changed nothing.
func revisions(digests ...string) bootstrap.History {
	var h bootstrap.History
	for i, d := range digests {
		has := func(mark string) bool { return strings.Contains(d, mark) }
		h = append(h, bootstrap.Revision{
			ID: uint64(i + 1), Digest: strings.TrimRight(d, "?=~"), Done: !has("?"), Partial: has("~"), Unchanged: has("="),
		})
	}
	return h
}

func TestStaleIsWhatWasAppliedBeforeAndReplacedSince(t *testing.T) {
	const harmless = true // the plan undoes nothing
	for _, c := range []struct {
		history     []string
		digest      string
		harmless    bool
		old, latest uint64 // 0: not stale
	}{
		{nil, "a", false, 0, 0},
		{[]string{"a"}, "a", false, 0, 0},
		{[]string{"a"}, "b", false, 0, 0},
		{[]string{"a", "b"}, "a", false, 1, 2},
		{[]string{"a", "b"}, "a", harmless, 1, 2}, // what was carried out as a whole stays in force
		{[]string{"a", "b"}, "b", false, 0, 0},
		{[]string{"a", "b"}, "c", false, 0, 0},
		{[]string{"a", "b", "a"}, "a", false, 0, 0}, // went back on purpose
		{[]string{"a", "b", "a"}, "b", false, 2, 3},
		{[]string{"a", "b", "a", "c"}, "a", false, 3, 4},
		{[]string{"a", "b?"}, "a", false, 1, 2}, // b may have come far
		{[]string{"a", "b?"}, "a", harmless, 0, 0},
		{[]string{"a", "b~"}, "a", false, 1, 2}, // what was done of b stays
		{[]string{"a", "b~"}, "a", harmless, 0, 0},
		{[]string{"a", "b?", "c~"}, "a", harmless, 0, 0},
		{[]string{"a", "b", "c~"}, "a", harmless, 1, 2},
		{[]string{"a", "b~", "c"}, "b", harmless, 2, 3},
		{[]string{"a", "b~", "a="}, "b", false, 0, 0}, // back in the file of one node, and not yet of another
		{[]string{"a", "b="}, "a", false, 0, 0},       // all of b was held back: there is nothing to undo
		{[]string{"a", "b~="}, "a", false, 0, 0},
		{[]string{"a", "b="}, "b", false, 0, 0},
		{[]string{"a", "b=", "c="}, "a", false, 0, 0},
		{[]string{"a", "b=", "c="}, "b", false, 0, 0},
		{[]string{"a", "b", "c="}, "a", false, 1, 2}, // c did nothing, b did
		{[]string{"a", "b=", "c"}, "a", false, 1, 3},
		{[]string{"b=", "c"}, "b", false, 1, 2},
		{[]string{"a", "b?"}, "b", false, 0, 0},
		{[]string{"a?", "b"}, "a", false, 1, 2},
		{[]string{"a", "a"}, "a", false, 0, 0},
	} {
		old, latest, stale := revisions(c.history...).Stale(c.digest, !c.harmless)
		if old.ID != c.old || latest.ID != c.latest || stale != (c.old != 0) {
			t.Errorf("%v after %v, harmless %t: got %d, %d, %t, want %d, %d, %t", c.digest, c.history, c.harmless, old.ID, latest.ID, stale, c.old, c.latest, c.old != 0)
		}
	}
}

func TestOnlyAnotherConfigurationIsAnotherRevision(t *testing.T) {
	for _, c := range []struct {
		history []string
		digest  string
		id      uint64 // 0: a new one
		open    bool
	}{
		{nil, "a", 0, false},
		{[]string{"a"}, "a", 1, false},
		{[]string{"a"}, "b", 0, false},
		{[]string{"a", "b"}, "a", 0, false}, // on purpose
		{[]string{"a", "b~"}, "b", 2, true},
		{[]string{"a", "b~="}, "b", 2, true},
		{[]string{"a", "b?"}, "b", 2, true},
		{[]string{"a", "b~"}, "a", 0, false},
		// One node has the new file and the other the old one, and they lead by turns.
		{[]string{"a", "b~="}, "a", 1, false},
		{[]string{"a", "b~", "a="}, "a", 3, false},
		{[]string{"a", "b~", "a="}, "b", 0, false}, // or what is done of it now would be older than a
		{[]string{"a", "b~", "a=", "b~="}, "b", 4, true},
		{[]string{"a", "b~", "a=", "b~="}, "a", 3, false},
		{[]string{"a~", "b="}, "a", 0, false},
		{[]string{"a?", "b="}, "a", 0, false},
	} {
		rev, open, ok := revisions(c.history...).Standing(c.digest)
		if ok != (c.id != 0) || ok && (rev.ID != c.id || open != c.open) {
			t.Errorf("%v after %v: got %d, open %t, %t, want %d, open %t", c.digest, c.history, rev.ID, open, ok, c.id, c.open)
		}
	}
}

// results are of changes of streams, each named by its outcome: made, changed, failed,
// refused, held.
func results(names ...string) bootstrap.Report {
	var r bootstrap.Report
	for _, name := range names {
		res := bootstrap.Result{Action: bootstrap.Action{Op: bootstrap.Update, Kind: bootstrap.KindStream, Account: "m", Stream: name}, Outcome: bootstrap.Done}
		switch name {
		case "made":
			res.Action.Op = bootstrap.Create
		case "kept":
			res.Action.Op = bootstrap.Keep
		case "failed", "refused":
			res.Outcome, res.Refused = bootstrap.Failed, name == "refused"
		case "held":
			res.Outcome = bootstrap.Skipped
		}
		r.Results = append(r.Results, res)
	}
	return r
}

func TestEndOfARevisionSaysWhatCanBeTakenBack(t *testing.T) {
	type end struct {
		Done, Partial, Unchanged bool
		Summary                  string
	}
	for name, c := range map[string]struct {
		history []string
		of      bootstrap.Revision
		before  bool // something may have been done before
		report  bootstrap.Report
		want    end
		same    bool // is no news
	}{
		"all done":           {report: results("made", "changed"), want: end{true, false, false, "1 created, 1 updated"}},
		"nothing to do":      {report: results("kept"), want: end{true, false, true, "nothing to change"}},
		"refused":            {report: results("refused", "kept"), want: end{true, true, true, "1 failed"}},
		"failed":             {report: results("failed"), want: end{true, true, false, "1 failed"}},
		"held back":          {report: results("held"), want: end{true, true, true, "1 left"}},
		"in part":            {report: results("made", "refused"), want: end{true, true, false, "1 created, 1 failed"}},
		"after a crash":      {of: bootstrap.Revision{}, before: true, report: results("refused"), want: end{true, true, false, "1 failed"}},
		"refused once more":  {of: bootstrap.Revision{Done: true, Partial: true, Unchanged: true, Summary: "x"}, before: true, report: results("refused"), want: end{true, true, true, "x"}, same: true},
		"failed once more":   {of: bootstrap.Revision{Done: true, Partial: true, Summary: "x"}, before: true, report: results("failed"), want: end{true, true, false, "x"}, same: true},
		"fails, was refused": {of: bootstrap.Revision{Done: true, Partial: true, Unchanged: true, Summary: "x"}, before: true, report: results("failed"), want: end{true, true, false, "x"}},
		"done at last": {
			of: bootstrap.Revision{Done: true, Partial: true, Unchanged: true, Summary: "1 failed"}, before: true, report: results("changed", "kept"),
			want: end{true, false, false, "1 failed; later: 1 updated"},
		},
		"refused, was in part": {of: bootstrap.Revision{Done: true, Partial: true, Summary: "x"}, before: true, report: results("refused"), want: end{true, true, false, "x"}, same: true},
		// It makes what it lacked, and is no newer than what it came back over.
		"comes back":            {history: []string{"a", "b~"}, of: bootstrap.Revision{Digest: "a"}, report: results("made"), want: end{true, false, true, "1 created"}},
		"comes back on purpose": {history: []string{"a", "b~"}, of: bootstrap.Revision{Digest: "a", Confirmed: true}, report: results("made"), want: end{true, false, false, "1 created"}},
		"was never whole":       {history: []string{"a~", "b~="}, of: bootstrap.Revision{Digest: "a"}, report: results("made"), want: end{true, false, false, "1 created"}},
	} {
		got, news := revisions(c.history...).Ended(c.of, !c.before, c.report, nil)
		if diff := cmp.Diff(c.want, end{got.Done, got.Partial, got.Unchanged, got.Summary}); diff != "" || news == c.same {
			t.Errorf("%s: got news %t, and another end (-want +got):\n%s", name, news, diff)
		}
	}
}

func TestWhatWasRefusedIsAsTheRevisionBeforeLeftIt(t *testing.T) {
	h := revisions("a")
	h[0].Objects = map[string]string{"m/refused": "a", "m/failed": "a", "m/kept": "a", "m/gone": "a", "m/held": "a"}
	declared := map[string]string{"m/refused": "b", "m/failed": "b", "m/kept": "b", "m/changed": "b", "m/held": "b"}
	end, _ := h.Ended(bootstrap.Revision{}, true, results("refused", "failed", "kept", "changed", "held"), declared)
	want := map[string]string{"m/refused": "a", "m/kept": "b", "m/changed": "b", "m/held": "a"}
	if diff := cmp.Diff(want, end.Objects); diff != "" {
		t.Errorf("in part: got other objects (-want +got):\n%s", diff)
	}
	end, _ = h.Ended(bootstrap.Revision{}, true, results("refused", "kept", "held"), declared)
	if end.Objects["m/gone"] != "a" {
		t.Errorf("unchanged: got objects %v, want what the file says nothing of as before", end.Objects)
	}
	// Some of it was done, and some of it held back: it is neither.
	both := results("changed", "changed")
	both.Results[1].Outcome = bootstrap.Skipped
	h[0].Objects["m/changed"] = "a"
	if end, _ = h.Ended(bootstrap.Revision{}, true, both, declared); end.Objects["m/changed"] != "" {
		t.Errorf("half done: got objects %v, want m/changed left out", end.Objects)
	}
}

func TestAPlanUndoesWhatIsNeitherMadeNorSomebodysWork(t *testing.T) {
	for _, c := range []struct {
		action bootstrap.Action
		want   bool
	}{
		{bootstrap.Action{Op: bootstrap.Keep, Stream: "S"}, false},
		{bootstrap.Action{Op: bootstrap.Unmanaged, Stream: "S"}, false},
		{bootstrap.Action{Op: bootstrap.Blocked, Stream: "S"}, false},
		{bootstrap.Action{Op: bootstrap.Create, Stream: "S"}, false},
		{bootstrap.Action{Op: bootstrap.Create, User: "u"}, true}, // whom the newer one removed
		{bootstrap.Action{Op: bootstrap.Remove, User: "u"}, true},
		{bootstrap.Action{Op: bootstrap.Update, Stream: "S"}, true},
		{bootstrap.Action{Op: bootstrap.Update, Stream: "S", Drift: true}, false}, // is not done unasked
		{bootstrap.Action{Op: bootstrap.Drop, Stream: "S"}, true},
		{bootstrap.Action{Op: bootstrap.Unknown, Stream: "S"}, true}, // once it can be read
	} {
		if got := (bootstrap.Plan{Actions: []bootstrap.Action{c.action}}).Undoes(); got != c.want {
			t.Errorf("%+v: got %t, want %t", c.action, got, c.want)
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
