// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/holdfast-mq/holdfast/appliance/admin"
	"github.com/holdfast-mq/holdfast/appliance/config"
)

func configured(t *testing.T, text string) *config.Config {
	t.Helper()
	return options(t, t.TempDir(), text, &logged{}).Config
}

// withStreams is a file with an account shop and these streams.
func withStreams(lines ...string) string {
	return "node: {data_dir: data}\nlisten: {client: \"127.0.0.1:0\", http: \"127.0.0.1:0\"}\nstorage: {limit: 1GiB}\naccounts:\n  shop:\n    users:\n" +
		"      checkout: {inbox: shared}\n      some: {permissions: {publish: [\"orders.eu.>\"], subscribe: []}, inbox: shared}\n    streams:\n      " +
		strings.Join(lines, "\n      ") + "\n"
}

func TestGroupingIsDecidedByFilePlatformAndDisk(t *testing.T) {
	const fast, slow = 20 * time.Microsecond, time.Millisecond
	subjects := func(prefix string, n int) string {
		var list []string
		for i := range n {
			list = append(list, fmt.Sprintf("%s.%d", prefix, i))
		}
		return strings.Join(list, ", ")
	}
	for _, c := range []struct {
		name     string
		streams  []string
		platform string
		flush    time.Duration
		want     map[string]string // why it is off, or "on"
	}{
		{"auto, where it pays", []string{`A: {subjects: [a], max_bytes: 1MiB}`}, "linux", slow, map[string]string{"A": "on"}},
		{"auto on a disk as fast as memory", []string{`A: {subjects: [a], max_bytes: 1MiB}`, `B: {subjects: [b], max_bytes: 1MiB, group_commit: "on"}`}, "linux", fast,
			map[string]string{"A": "flushes take 20µs: no gain", "B": "on"}},
		{"auto elsewhere", []string{`A: {subjects: [a], max_bytes: 1MiB}`, `B: {subjects: [b], max_bytes: 1MiB, group_commit: "on"}`}, "windows", slow,
			map[string]string{"A": "not on this platform, unless group_commit is on", "B": "on"}},
		{"off", []string{`A: {subjects: [a], max_bytes: 1MiB, group_commit: "off"}`}, "linux", slow, map[string]string{"A": "group_commit: off in the file"}},
		{"where it is not possible", []string{`A: {subjects: [a], max_bytes: 1MiB, storage: memory}`, `B: {subjects: [b], max_bytes: 1MiB, allow_atomic: false}`}, "linux", slow,
			map[string]string{"A": "storage: memory has no fsync", "B": "allow_atomic: messages are handed over as atomic batches"}},
		{"many subjects", []string{
			fmt.Sprintf("A: {subjects: [%s], max_bytes: 1MiB, group_commit: \"off\"}", subjects("a", 40)),
			fmt.Sprintf("B: {subjects: [%s], max_bytes: 1MiB}", subjects("b", 49)),
			fmt.Sprintf("C: {subjects: [%s], max_bytes: 1MiB}", subjects("c", 2)),
			"D: {subjects: [d], max_bytes: 1MiB}",
			"E: {subjects: [e], max_bytes: 1MiB}",
			"F: {subjects: [f], max_bytes: 1MiB, group_commit: \"on\"}",
		}, "linux", slow, map[string]string{
			"A": "group_commit: off in the file", "B": "on", "C": "it would be for more than 50 subjects of the account", "D": "on",
			"E": "it would be for more than 50 subjects of the account", "F": "on",
		}},
	} {
		got := map[string]string{}
		for _, g := range decideGroups(configured(t, withStreams(c.streams...)), "shop", c.platform, c.flush) {
			if got[g.lane.Stream] = g.why; g.on {
				got[g.lane.Stream] = "on" + g.why
			}
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: decisions differ (-want +got):\n%s", c.name, diff)
		}
	}
}

const (
	groupedStream = `ORDERS: {subjects: ["orders.>"], max_bytes: 16MiB, group_commit: "on"}`
	offStream     = `BILLS: {subjects: ["bills"], max_bytes: 16MiB, group_commit: "off"}`
)

// account returns what the status says of an account.
func (r *running) account(t *testing.T, name string) admin.AccountStatus {
	t.Helper()
	s, err := r.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if s.Storage.FlushSeconds <= 0 {
		t.Errorf("got a flush time of %v s, want what was measured", s.Storage.FlushSeconds)
	}
	for _, a := range s.Accounts {
		if a.Name == name {
			return a
		}
	}
	t.Fatalf("got no account %s, want it in %+v", name, s.Accounts)
	return admin.AccountStatus{}
}

func TestStatusAndMetricsTellOfGroupCommit(t *testing.T) {
	l := &logged{}
	r := run(t, open(t, options(t, t.TempDir(), withStreams(groupedStream, offStream), l))).waitReady(t)
	if l.count("group commit is on") != 1 || l.count("group commit is off") != 0 {
		t.Errorf("got log %q, want one line that group commit is on", l.msgs)
	}
	js := r.jetStream(t)
	if err := call(js.Conn(), "STREAM.CREATE.BY-HAND", map[string]any{"name": "BY-HAND", "subjects": []string{"hand"}}, &struct{}{}); err != nil {
		t.Fatal(err)
	}
	const publishers, each = 64, 20
	var all sync.WaitGroup
	for range publishers {
		all.Go(func() {
			for range each {
				if _, err := js.Publish(t.Context(), "orders.new", []byte("x")); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()

	a := r.account(t, "shop")
	got := map[string]admin.GroupCommit{}
	for _, s := range a.Streams {
		got[s.Name] = s.GroupCommit
	}
	want := map[string]admin.GroupCommit{"ORDERS": {On: true}, "BILLS": {Reason: "group_commit: off in the file"}, "BY-HAND": {Reason: "not in the file"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("status differs (-want +got):\n%s", diff)
	}
	c := a.GroupCommit
	if c == nil || c.Alone+c.Grouped != publishers*each || c.Grouped == 0 || c.Batches == 0 || *c != (admin.GroupCounters{Alone: c.Alone, Grouped: c.Grouped, Batches: c.Batches}) {
		t.Fatalf("got counters %+v, want %d messages, some of them in batches, and nothing else", c, publishers*each)
	}
	resp, err := http.Get("http://" + r.Addresses()["http"] + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`holdfast_group_commit_on{account="shop",stream="ORDERS"} 1`, `holdfast_group_commit_on{account="shop",stream="BILLS"} 0`,
		fmt.Sprintf(`holdfast_group_commit_messages_total{account="shop",how="grouped"} %d`, c.Grouped),
		fmt.Sprintf(`holdfast_group_commit_batches_total{account="shop"} %d`, c.Batches),
	} {
		if !strings.Contains(string(text), want+"\n") {
			t.Errorf("got metrics without %s, want it there", want)
		}
	}
	r.stop(t)
}

func TestGroupCommitTellsWhatChanged(t *testing.T) {
	home, l := t.TempDir(), &logged{}
	r := run(t, open(t, options(t, home, withStreams(offStream), l))).waitReady(t)
	if l.count("group commit is off") != 1 {
		t.Errorf("got log %q, want one line that group commit is off", l.msgs)
	}
	if c := r.account(t, "shop").GroupCommit; c != nil {
		t.Errorf("got counters %+v, want none where nothing is grouped", c)
	}
	group := func(streams ...string) error {
		r.applying.Lock()
		defer r.applying.Unlock()
		return r.group(t.Context(), configured(t, withStreams(streams...)))
	}
	for range 2 {
		if err := group(groupedStream, offStream); err != nil {
			t.Fatal(err)
		}
	}
	if l.count("group commit is on") != 1 {
		t.Errorf("got log %q, want one line that group commit is on", l.msgs)
	}
	// From here on nothing more can be carried.
	r.ingest.Close()
	if err := group(groupedStream, offStream, `LATER: {subjects: ["later"], max_bytes: 1MiB, group_commit: "on"}`); err == nil {
		t.Error("got no error from a closed ingest, want one")
	}
	// Messages are not led where nobody takes them.
	closed := admin.GroupCommit{Reason: `not brought up to date: group commit in account "shop": use of closed network connection`}
	want := map[string]admin.GroupCommit{
		"ORDERS": closed, "BILLS": {Reason: "group_commit: off in the file"}, "LATER": closed, "UNKNOWN": {Reason: "not applied yet"},
	}
	for stream, want := range want {
		if got := r.groupStatus("shop", stream, true); got != want {
			t.Errorf("%s: got %+v, want %+v", stream, got, want)
		}
	}
	r.stop(t)
}

// The mappings of the run before are still there when a configuration is not applied.
func TestPublishersReachStreamsThoughTheConfigurationIsStale(t *testing.T) {
	home := t.TempDir()
	before := withStreams(groupedStream, offStream)
	for _, text := range []string{before, withStreams(groupedStream, offStream, `LATER: {subjects: ["later"], max_bytes: 1MiB}`)} {
		r := run(t, open(t, options(t, home, text, &logged{}))).waitReady(t)
		if _, err := r.jetStream(t).Publish(t.Context(), "orders.new", []byte("x")); err != nil {
			t.Fatal(err)
		}
		r.stop(t)
	}
	l := &logged{}
	r := run(t, open(t, options(t, home, before, l)))
	eventually(t, func() error {
		if r.Addresses()["client"] == "" {
			return errors.New("got no client port, want it open")
		}
		return nil
	})
	if l.count("configuration not applied") != 1 {
		t.Errorf("got log %q, want that the configuration was not applied", l.msgs)
	}
	if _, err := r.jetStream(t).Publish(t.Context(), "orders.new", []byte("x")); err != nil {
		t.Errorf("got %v, want the message stored", err)
	}
	if got, want := r.groupStatus("shop", "ORDERS", true), (admin.GroupCommit{Reason: "not applied yet"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	r.stop(t)
}

// A user that may not publish sees the subject that messages are led to; whoever looks
// for the reason sees the one that is in the program and in the file.
func TestRefusalsNameTheSubjectThatWasUsed(t *testing.T) {
	r := run(t, open(t, options(t, t.TempDir(), withStreams(groupedStream, offStream), &logged{}))).waitReady(t)
	refused := make(chan error, 1)
	nc, err := nats.Connect("nats://"+r.Addresses()["client"], nats.UserCredentials(r.CredsFile("shop", "some")), nats.NoReconnect(), nats.Timeout(patience),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	for subject, told := range map[string]string{"orders.us.new": "_hf.in.ORDERS.orders.us.new", "bills": "bills"} {
		if err := nc.Publish(subject, []byte("x")); err != nil {
			t.Fatal(err)
		}
		select {
		case err := <-refused:
			if !strings.Contains(err.Error(), fmt.Sprintf("%q", told)) {
				t.Errorf("%s: got %v, want that %s was refused", subject, err, told)
			}
		case <-time.After(patience):
			t.Fatalf("%s: got no refusal, want one", subject)
		}
		eventually(t, func() error {
			s, err := r.Status(t.Context())
			if err != nil {
				return err
			}
			for _, f := range s.Refusals {
				if f.User == "some" && f.Reason == "publish" && f.Example == subject {
					return nil
				}
			}
			return fmt.Errorf("got refusals %+v, want one of %s", s.Refusals, subject)
		})
	}
	r.stop(t)
}

// TestWhatIsUnderWayHasAWayBack: the ways in end before what came by them is stored.
func TestWhatIsUnderWayHasAWayBack(t *testing.T) {
	r := run(t, open(t, options(t, t.TempDir(), withStreams(groupedStream), &logged{}))).waitReady(t)
	r.applying.Lock()
	defer r.applying.Unlock()
	if err := r.lead(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	routes, err := r.identity.Routes()
	if err != nil {
		t.Fatal(err)
	}
	if got := routes["shop"]; len(got) != 1 || got[0].To != ">" {
		t.Errorf("got mappings %v, want the way back alone", got)
	}
}
