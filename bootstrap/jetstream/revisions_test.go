// SPDX-License-Identifier: Apache-2.0

package jetstream_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/bootstrap"
	"github.com/holdfast-mq/holdfast/bootstrap/jetstream"
)

const internal = "HOLDFAST"

// apartFromEnds leaves out where the records of ends stand.
var apartFromEnds = cmpopts.IgnoreFields(bootstrap.Revision{}, "End")

// openOptions are of a server that lets everybody into its one account: what it
// stores can be opened again, and by several servers.
func openOptions(t *testing.T) *server.Options {
	t.Helper()
	return &server.Options{ServerName: "n1", DontListen: true, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir()}
}

// openClient is a client of such a server.
func openClient(t *testing.T, d jetstream.Dialer) *jetstream.Client {
	t.Helper()
	user, _ := newKey(t, nkeys.CreateUser)
	c := jetstream.New(d, func(string) (string, []byte, error) {
		seed, err := user.Seed()
		return "not looked at", seed, err
	})
	t.Cleanup(c.Close)
	return c
}

// openRevisions is the record in a server of its own.
func openRevisions(t *testing.T, change ...func(*server.Options)) (jetstream.Revisions, *nats.Conn) {
	t.Helper()
	opts := openOptions(t)
	for _, c := range change {
		c(opts)
	}
	s := run(t, opts)
	nc, err := nats.Connect("", nats.InProcessServer(s))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return openClient(t, s).Revisions(internal, 1), nc
}

func history(t *testing.T, r jetstream.Revisions) bootstrap.History {
	t.Helper()
	h, err := r.History(t.Context())
	if err != nil {
		t.Fatalf("read history: %v", err)
	}
	return h
}

func begin(t *testing.T, r jetstream.Revisions, rev bootstrap.Revision) bootstrap.Revision {
	t.Helper()
	id, err := r.Begin(t.Context(), rev)
	if err != nil {
		t.Fatalf("begin after revision %d: %v", rev.After, err)
	}
	rev.ID = id
	return rev
}

func finish(t *testing.T, r jetstream.Revisions, rev bootstrap.Revision) bootstrap.Revision {
	t.Helper()
	if err := r.Finish(t.Context(), rev); err != nil {
		t.Fatalf("finish revision %d: %v", rev.ID, err)
	}
	rev.Done = true
	return rev
}

func wantHistory(t *testing.T, r jetstream.Revisions, want ...bootstrap.Revision) {
	t.Helper()
	if diff := cmp.Diff(bootstrap.History(want), history(t, r), apartFromEnds); diff != "" {
		t.Errorf("got another history (-want +got):\n%s", diff)
	}
}

func withoutObjects(rev bootstrap.Revision) bootstrap.Revision {
	rev.Objects = nil
	return rev
}

func TestHistoryOfANodeThatAppliedNothingIsEmptyAndMakesNothing(t *testing.T) {
	r, nc := openRevisions(t)
	wantHistory(t, r)
	if names := streamNames(t, nc); len(names) > 0 {
		t.Errorf("got streams %v, want none made by reading", names)
	}
}

func streamNames(t *testing.T, nc *nats.Conn) []string {
	t.Helper()
	js, err := nc.JetStream()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for name := range js.StreamNames() {
		names = append(names, name)
	}
	return names
}

func TestHistoryTellsWhoAppliedWhatAndHowFarItCame(t *testing.T) {
	r, _ := openRevisions(t)
	first := begin(t, r, bootstrap.Revision{
		Time: time.Date(2026, 3, 4, 5, 6, 7, 8, time.UTC), Node: "n1", By: "ann", Files: []string{"/etc/holdfast.yaml"}, Digest: "d1",
		Objects: map[string]string{"shop/A": "1", "shop/B": "1"}, Allow: []string{"shop/A"}, Confirmed: true, Rollback: true,
	})
	wantHistory(t, r, first)

	// What is finished counts with what was reached in the end.
	first.Objects, first.Summary = map[string]string{"shop/A": "1"}, "1 created, 1 blocked"
	first = finish(t, r, first)
	wantHistory(t, r, first)

	second := begin(t, r, bootstrap.Revision{After: first.ID, Digest: "d2", Objects: map[string]string{}})
	wantHistory(t, r, first, second)
	third := begin(t, r, bootstrap.Revision{After: second.ID, Digest: "d3", Objects: map[string]string{"shop/A": "3"}})
	wantHistory(t, r, first, second, third)
	third = finish(t, r, third)
	wantHistory(t, r, withoutObjects(first), withoutObjects(second), third)

	if first.ID != 1 || second.ID <= first.ID || third.ID <= second.ID {
		t.Errorf("got IDs %d, %d and %d, want them to grow from 1", first.ID, second.ID, third.ID)
	}
}

func TestFinishTwiceCountsOnce(t *testing.T) {
	r, _ := openRevisions(t)
	rev := begin(t, r, bootstrap.Revision{Objects: map[string]string{"shop/A": "1"}})
	rev.Summary = "first"
	rev = finish(t, r, rev)
	again := rev
	again.Summary = "second"
	finish(t, r, again)
	wantHistory(t, r, rev)
}

// What was not carried out as a whole is finished more than once.
func TestFinishAgainSaysHowFarItIsNow(t *testing.T) {
	r, nc := openRevisions(t)
	rev := begin(t, r, bootstrap.Revision{Objects: map[string]string{"shop/A": "1", "shop/B": "1"}})
	rev.Objects, rev.Summary, rev.Partial, rev.Unchanged = map[string]string{"shop/A": "0"}, "1 failed", true, true
	wantHistory(t, r, finish(t, r, rev))
	rev = history(t, r)[0]
	rev.Objects, rev.Summary, rev.Partial, rev.Unchanged = map[string]string{"shop/A": "1", "shop/B": "1"}, "1 failed; later: 2 created", false, false
	wantHistory(t, r, finish(t, r, rev))
	finish(t, r, rev) // its answer was lost
	wantHistory(t, r, rev)
	if got := messages(t, nc); got != 4 {
		t.Errorf("got %d messages, want the beginning, two ends and one set of objects", got)
	}
}

// Two nodes may be at it at the turn of a leader: then nobody may take it for nothing.
func TestFinishBesideAnotherOneCountsAsDone(t *testing.T) {
	r, _ := openRevisions(t)
	rev := begin(t, r, bootstrap.Revision{Objects: map[string]string{}})
	rev.Partial, rev.Unchanged = true, true
	finish(t, r, rev)
	mine := rev
	mine.Unchanged, mine.Summary = false, "1 created, 1 failed"
	finish(t, r, mine)
	mine.Partial = false
	mine.Done = true
	wantHistory(t, r, mine)
	finish(t, r, rev) // that which came late changes nothing
	wantHistory(t, r, mine)
}

func TestResumeRecordsTheObjectsOfACutShortBeginning(t *testing.T) {
	r, nc := openRevisions(t)
	rev := begin(t, r, bootstrap.Revision{Objects: map[string]string{"shop/A": "1"}})
	call(t, nc, "STREAM.PURGE.REVISIONS", `{"filter":"revisions.objects.1"}`)
	wantHistory(t, r, withoutObjects(rev))
	if err := r.Resume(t.Context(), rev); err != nil {
		t.Fatal(err)
	}
	wantHistory(t, r, rev)
}

func TestFinishOfWhatWasNotBegunIsRefused(t *testing.T) {
	r, _ := openRevisions(t)
	if err := r.Finish(t.Context(), bootstrap.Revision{}); diag.CodeOf(err) != diag.CodeUpdate {
		t.Errorf("got %v, want code %s", err, diag.CodeUpdate)
	}
}

func TestLateFinishKeepsWhatWasBegunSince(t *testing.T) {
	r, _ := openRevisions(t)
	slow := begin(t, r, bootstrap.Revision{Digest: "slow", Objects: map[string]string{"shop/A": "1"}})
	fast := begin(t, r, bootstrap.Revision{Digest: "fast", After: slow.ID, Objects: map[string]string{"shop/A": "2"}})
	slow = finish(t, r, slow)
	wantHistory(t, r, slow, fast)
}

func TestSecondOfTwoThatBeginAtOnceIsToldWhoWasFaster(t *testing.T) {
	r, _ := openRevisions(t)
	base := finish(t, r, begin(t, r, bootstrap.Revision{By: "start"}))
	begin(t, r, bootstrap.Revision{After: base.ID, By: "ann", Node: "n2"})
	_, err := r.Begin(t.Context(), bootstrap.Revision{After: base.ID, By: "bob"})

	overtaken, ok := errors.AsType[*jetstream.OvertakenError](err)
	if !ok || overtaken.Latest.By != "ann" || overtaken.Latest.Node != "n2" || overtaken.Latest.ID <= base.ID {
		t.Fatalf("got %v, want an OvertakenError that names ann on n2", err)
	}
	if diag.CodeOf(err) != diag.CodePlanMoved || diag.Hint(err) == "" {
		t.Errorf("got code %s and hint %q, want %s and a hint", diag.CodeOf(err), diag.Hint(err), diag.CodePlanMoved)
	}
	if h := history(t, r); len(h) != 2 {
		t.Errorf("got %d revisions, want the 2 that were begun", len(h))
	}
}

func TestBeginAfterARevisionThatWasRemovedIsRefused(t *testing.T) {
	r, nc := openRevisions(t)
	rev := finish(t, r, begin(t, r, bootstrap.Revision{}))
	call(t, nc, "STREAM.DELETE.REVISIONS", "")
	_, err := r.Begin(t.Context(), bootstrap.Revision{After: rev.ID})
	if overtaken, ok := errors.AsType[*jetstream.OvertakenError](err); !ok || overtaken.Latest.ID != 0 {
		t.Errorf("got %v, want an OvertakenError without a revision", err)
	}
	wantHistory(t, r)
}

func TestRevisionsAreInNoPlan(t *testing.T) {
	n := startNode(t, "shop", internal)
	c := newClient(t, n)
	finish(t, c.Revisions(internal, 1), begin(t, c.Revisions(internal, 1), bootstrap.Revision{}))
	if have := observe(t, c, "shop"); len(have.Accounts) != 1 || len(have.Accounts["shop"].Streams) > 0 {
		t.Errorf("got %+v, want an account without streams", have)
	}
	if names := streamNames(t, connect(t, n, "shop")); len(names) > 0 {
		t.Errorf("got streams %v for a user, want none", names)
	}
}

func TestBeginAgainAfterALostAnswerGoesOnWithWhatWasRecorded(t *testing.T) {
	r, _ := openRevisions(t)
	rev := bootstrap.Revision{Time: time.Unix(1, 2).UTC(), By: "ann", Objects: map[string]string{"shop/A": "1"}}
	first := begin(t, r, rev)
	if again := begin(t, r, rev); again.ID != first.ID {
		t.Errorf("got revision %d, want %d again", again.ID, first.ID)
	}
	wantHistory(t, r, first)
	rev.Time = rev.Time.Add(1)
	if _, err := r.Begin(t.Context(), rev); diag.CodeOf(err) != diag.CodePlanMoved {
		t.Errorf("another attempt: got %v, want code %s", err, diag.CodePlanMoved)
	}
}

func TestOneOfManyThatBeginAtOnceWins(t *testing.T) {
	r, _ := openRevisions(t)
	wantOneWinner(t, r, 0, r, r, r, r, r, r)
}

// wantOneWinner lets all begin after the same revision, twice each.
func wantOneWinner(t *testing.T, reader jetstream.Revisions, after uint64, all ...jetstream.Revisions) {
	t.Helper()
	var mu sync.Mutex
	var wins []uint64
	var wg sync.WaitGroup
	for i, r := range append(all, all...) {
		wg.Go(func() {
			id, err := r.Begin(t.Context(), bootstrap.Revision{After: after, By: fmt.Sprint(i), Objects: map[string]string{"shop/A": fmt.Sprint(i)}})
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				wins = append(wins, id)
			} else if _, ok := errors.AsType[*jetstream.OvertakenError](err); !ok {
				t.Errorf("writer %d: got %v, want an OvertakenError", i, err)
			}
		})
	}
	wg.Wait()
	if len(wins) != 1 {
		t.Fatalf("got %d writers that won, want 1", len(wins))
	}
	h := history(t, reader)
	latest, _ := h.Latest()
	if latest.ID != wins[0] || latest.Objects["shop/A"] != latest.By {
		t.Errorf("got latest %+v, want the winner %d with its own objects", latest, wins[0])
	}
}

func TestRevisionsSurviveARestart(t *testing.T) {
	opts := openOptions(t)
	running := run(t, opts)
	r := openClient(t, dialFunc(func() (net.Conn, error) { return running.InProcessConn() })).Revisions(internal, 1)
	first := finish(t, r, begin(t, r, bootstrap.Revision{Digest: "d1", Objects: map[string]string{"shop/A": "1"}}))
	second := begin(t, r, bootstrap.Revision{After: first.ID, Digest: "d2", Objects: map[string]string{"shop/A": "2"}})

	running.Shutdown()
	running.WaitForShutdown()
	if _, err := r.History(t.Context()); diag.CodeOf(err) != diag.CodeObserve {
		t.Errorf("stopped server: got %v, want code %s", err, diag.CodeObserve)
	}
	running = run(t, opts)
	wantHistory(t, r, first, second)
	if pending, ok := history(t, r).Pending(); !ok || pending.ID != second.ID {
		t.Errorf("got pending %d, %t, want revision %d", pending.ID, ok, second.ID)
	}
	finish(t, r, begin(t, r, bootstrap.Revision{After: second.ID, Digest: "d2"}))
}

type dialFunc func() (net.Conn, error)

func (f dialFunc) InProcessConn() (net.Conn, error) { return f() }

// manyObjects have names that don't compress.
func manyObjects(n int) map[string]string {
	random := rand.New(rand.NewPCG(1, 2))
	objects := make(map[string]string, n)
	for range n {
		objects[fmt.Sprintf("shop/%016x%016x/%016x%016x", random.Uint64(), random.Uint64(), random.Uint64(), random.Uint64())] = fmt.Sprintf("%016x", random.Uint64())
	}
	return objects
}

func TestRevisionOfTenThousandStreamsIsKept(t *testing.T) {
	// The least max_pending that the server takes is max_payload.
	r, nc := openRevisions(t, func(o *server.Options) { o.MaxPayload, o.MaxPending = 1<<20, 1<<20 })
	rev := finish(t, r, begin(t, r, bootstrap.Revision{Objects: manyObjects(20_000)})) // with a consumer each
	wantHistory(t, r, rev)
	next := finish(t, r, begin(t, r, bootstrap.Revision{After: rev.ID, Objects: manyObjects(3)}))
	wantHistory(t, r, withoutObjects(rev), next)
	// Two records for each revision, and the objects of the last.
	if got := messages(t, nc); got != 5 {
		t.Errorf("got %d messages, want 5: the old objects are of no use", got)
	}
}

func TestRevisionsFitASmallMaxPayload(t *testing.T) {
	r, nc := openRevisions(t, func(o *server.Options) { o.MaxPayload, o.MaxPending = 16<<10, 16<<10 })
	rev := finish(t, r, begin(t, r, bootstrap.Revision{Objects: manyObjects(2000)}))
	wantHistory(t, r, rev)
	if got := messages(t, nc); got < 20 {
		t.Errorf("got %d messages, want the objects in many", got)
	}
	// Too many messages would push the records out.
	next := finish(t, r, begin(t, r, bootstrap.Revision{After: rev.ID, Objects: manyObjects(20_000)}))
	wantHistory(t, r, withoutObjects(rev), withoutObjects(next))
}

func messages(t *testing.T, nc *nats.Conn) uint64 {
	t.Helper()
	js, err := nc.JetStream()
	if err != nil {
		t.Fatal(err)
	}
	info, err := js.StreamInfo("REVISIONS")
	if err != nil {
		t.Fatal(err)
	}
	return info.State.Msgs
}

func TestOldRevisionsMakeRoom(t *testing.T) {
	r, nc := openRevisions(t)
	rev := bootstrap.Revision{}
	for i := range 510 {
		rev = finish(t, r, begin(t, r, bootstrap.Revision{After: rev.ID, Digest: fmt.Sprint(i), Objects: map[string]string{"shop/A": "1"}}))
	}
	h := history(t, r)
	latest, _ := h.Latest()
	if diff := cmp.Diff(rev, latest, apartFromEnds); diff != "" {
		t.Errorf("got another latest (-want +got):\n%s", diff)
	}
	if len(h) < 495 || len(h) > 500 || messages(t, nc) > 1000 {
		t.Errorf("got %d revisions in %d messages, want about 500 in 1,000 at most", len(h), messages(t, nc))
	}
	for _, old := range h[1:] { // the first may have lost its beginning or its end
		if !old.Done {
			t.Errorf("revision %d: got not finished, want finished", old.ID)
		}
	}
}

// TestRevisionsGoOnAfterADamagedConfiguration finds the stream as a start brings it back
// whose configuration was lost: nobody's subjects but its own name.
func TestRevisionsGoOnAfterADamagedConfiguration(t *testing.T) {
	r, nc := openRevisions(t)
	call(t, nc, "STREAM.CREATE.REVISIONS", `{"name":"REVISIONS","storage":"file","retention":"limits","num_replicas":1,"allow_direct":true}`)
	id, err := r.Begin(t.Context(), bootstrap.Revision{Digest: "a"})
	if err != nil {
		t.Fatal(err)
	}
	h, err := r.History(t.Context())
	if err != nil || len(h) != 1 || h[0].ID != id {
		t.Errorf("got %v and %v, want the revision", h, err)
	}
}
