// SPDX-License-Identifier: Apache-2.0

package jetstream_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/bootstrap"
	"github.com/holdfast-mq/holdfast/bootstrap/jetstream"
)

// agreed is the consent of somebody who allows everything.
func agreed(streams ...string) jetstream.Order {
	o := jetstream.Order{Consents: bootstrap.Consents{Confirmed: true}}
	for _, s := range streams {
		o.Consents.Allow = append(o.Consents.Allow, "shop/"+s)
	}
	return o
}

func TestWhatNeedsConsentIsLeftAloneWithoutIt(t *testing.T) {
	n := startNode(t, "shop")
	c := newClient(t, n)
	nc := connect(t, n, "shop")
	call(t, nc, "STREAM.CREATE.ORDERS", `{"name":"ORDERS","subjects":["orders.>"],"max_bytes":1073741824,"description":"old"}`)
	want := shop(stream(t, "ORDERS", `{"subjects":["orders.>"],"max_bytes":1048576,"description":"new","deny_purge":true}`))
	ops := func(p bootstrap.Plan) (ops []string) {
		for _, a := range p.Actions {
			ops = append(ops, string(a.Op))
		}
		return ops
	}
	plan := func() bootstrap.Plan { return bootstrap.Diff(want, observe(t, c, "shop"), nil) }
	for _, step := range []struct {
		order jetstream.Order
		want  []string // of the plan before it
	}{
		{jetstream.Order{}, []string{"update", "one-way", "drop"}},
		{jetstream.Order{Consents: bootstrap.Consents{Allow: []string{"shop/ORDERS"}}}, []string{"one-way", "drop"}},
		{agreed("OTHER"), []string{"one-way", "drop"}},
		{agreed("ORDERS"), []string{"drop"}},
		{jetstream.Order{}, []string{"keep"}},
	} {
		p := plan()
		if diff := cmp.Diff(step.want, ops(p)); diff != "" {
			t.Errorf("plan before %+v (-want +got):\n%s", step.order, diff)
		}
		report := c.Execute(t.Context(), p, step.order)
		if err := report.Err(); err != nil || !report.Converged() {
			t.Errorf("%+v: got %v, converged %t, want no error and a ready node", step.order, err, report.Converged())
		}
	}
}

// What the server refused is as it was before; what nobody answered for may not be.
func TestARefusalIsKnownFromAFailure(t *testing.T) {
	n := startNode(t, "shop")
	c := newClient(t, n)
	converge(t, c, shop(stream(t, "HAVE", `{"subjects":["have"]}`), stream(t, "TAKEN", `{"subjects":["taken"]}`)))
	// Each takes a subject that another stream has.
	want := shop(stream(t, "HAVE", `{"subjects":["have","taken"]}`), stream(t, "NEW", `{"subjects":["taken"]}`), stream(t, "TAKEN", `{"subjects":["taken"]}`))
	plan := bootstrap.Diff(want, observe(t, c, "shop"), nil)
	report := c.Execute(t.Context(), plan, agreed())
	for _, r := range report.Results {
		if changes := r.Action.Op.Changes(); (r.Outcome == bootstrap.Failed) != changes || r.Refused != changes {
			t.Errorf("%s %s: got %s, refused %t and %v, want changes refused", r.Action.Op, r.Action.Path(), r.Outcome, r.Refused, r.Err)
		}
	}
	if report.Count(bootstrap.Failed) != 2 || !report.Unchanged() {
		t.Errorf("got %d failed, unchanged %t, want 2 and nothing changed", report.Count(bootstrap.Failed), report.Unchanged())
	}
	c.Close()
	for _, r := range c.Execute(t.Context(), plan, agreed()).Results {
		if r.Action.Op == bootstrap.Create && (r.Outcome != bootstrap.Failed || r.Refused) {
			t.Errorf("no answer: %s: got %s, refused %t, want it failed", r.Action.Path(), r.Outcome, r.Refused)
		}
	}
}

func TestHandMadeObjectsAreUnmanaged(t *testing.T) {
	n := startNode(t, "shop")
	c := newClient(t, n)
	nc := connect(t, n, "shop")
	want := shop(stream(t, "ORDERS", `{"subjects":["orders.>"]}`, consumer(t, "mine", `{}`), consumer(t, "old", `{}`)))
	converge(t, c, want)
	call(t, nc, "STREAM.CREATE.HAND", `{"name":"HAND","subjects":["hand"]}`)
	call(t, nc, "CONSUMER.CREATE.ORDERS.durable", `{"stream_name":"ORDERS","config":{"name":"durable","durable_name":"durable"}}`)
	call(t, nc, "CONSUMER.CREATE.ORDERS.passing", `{"stream_name":"ORDERS","config":{"name":"passing","inactive_threshold":60000000000}}`)
	want.Accounts[0].Streams[0].Consumers = want.Accounts[0].Streams[0].Consumers[:1]

	plan := bootstrap.Diff(want, observe(t, c, "shop"), nil)
	const text = `Not in the file, left alone:
  unmanaged stream   shop/HAND: was not made by Holdfast
  unmanaged consumer shop/ORDERS/durable: was not made by Holdfast
  unmanaged consumer shop/ORDERS/old: was made by Holdfast, is not in the file any more

3 not in the file, 2 as declared
`
	if diff := cmp.Diff(text, plan.String()); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
	c.Execute(t.Context(), plan, jetstream.Order{})
	if got := bootstrap.Diff(want, observe(t, c, "shop"), nil); got.String() != plan.String() {
		t.Errorf("after execute: got\n%swant everything still there", got)
	}
}

func TestFailedStreamStopsOnlyItsConsumers(t *testing.T) {
	c := newClient(t, startNode(t, "shop"))
	want := shop(
		stream(t, "A", `{"subjects":["same.>"]}`, consumer(t, "a", `{}`)),
		stream(t, "B", `{"subjects":["same.b"]}`, consumer(t, "b", `{}`)),
		stream(t, "C", `{"subjects":["c"],"retention":"workqueue"}`,
			consumer(t, "all", `{"ack_policy":"explicit"}`), consumer(t, "too", `{"ack_policy":"explicit"}`)),
		stream(t, "D", `{"subjects":["d"],"max_age":1}`),
		stream(t, "E", `{"subjects":["e"],"num_replicas":3}`),
		stream(t, "F", `{"subjects":["f"],"nonsense":1}`),
		stream(t, "G", `{"subjects":["g"]}`),
	)
	want.Accounts[0].Streams[1].Pos = diag.Pos{File: "holdfast.yaml", Line: 7, Col: 3}
	report := c.Execute(t.Context(), bootstrap.Diff(want, observe(t, c, "shop"), nil), jetstream.Order{})
	var got []string
	for _, r := range report.Results {
		line := r.Action.Path() + " " + string(r.Outcome)
		if r.Err != nil {
			line += ": " + r.Err.Error()
			if diag.CodeOf(r.Err) != diag.CodeCreate || diag.Hint(r.Err) == "" || diag.Permanent(r.Err) {
				t.Errorf("%s: got code %q, hint %q, want code %s and a hint", line, diag.CodeOf(r.Err), diag.Hint(r.Err), diag.CodeCreate)
			}
		}
		got = append(got, strings.TrimSpace(line+" "+r.Reason))
	}
	if diff := cmp.Diff([]string{
		"shop/A done",
		"shop/A/a done",
		`shop/B failed: create stream "B" in account "shop": subjects overlap with an existing stream (10065)`,
		"shop/B/b skipped its stream was not made",
		"shop/C done",
		"shop/C/all done",
		`shop/C/too failed: create consumer "too" of stream "C" in account "shop": multiple non-filtered consumers not allowed on workqueue stream (10099)`,
		`shop/D failed: create stream "D" in account "shop": max age needs to be >= 100ms (10052)`,
		`shop/E failed: create stream "E" in account "shop": replicas > 1 not supported in non-clustered mode (10074)`,
		`shop/F failed: create stream "F" in account "shop": invalid JSON: json: unknown field "nonsense" (10025)`,
		"shop/G done",
	}, got); diff != "" {
		t.Errorf("results (-want +got):\n%s", diff)
	}
	if report.Converged() {
		t.Error("got converged, want not: streams are missing")
	}
	if at := report.Results[2].Action.Pos.String(); at != "holdfast.yaml:7:3" {
		t.Errorf("position of the failed stream: got %q, want holdfast.yaml:7:3", at)
	}
}

func TestInterruptedExecuteIsFinishedByTheNext(t *testing.T) {
	c := newClient(t, startNode(t, "shop"))
	want := shop(
		stream(t, "A", `{"subjects":["a"]}`, consumer(t, "a", `{}`), consumer(t, "b", `{}`)),
		stream(t, "B", `{"subjects":["b"]}`, consumer(t, "a", `{}`)),
	)
	for stopAfter := range 5 {
		ctx, cancel := context.WithCancel(t.Context())
		plan := bootstrap.Diff(want, observe(t, c, "shop"), nil)
		if stopAfter == 0 {
			cancel()
		}
		var calls []int
		report := c.Execute(ctx, plan, jetstream.Order{Progress: func(done, total int) {
			if calls = append(calls, done); total != plan.Count(bootstrap.Create) {
				t.Errorf("progress: got total %d, want %d", total, plan.Count(bootstrap.Create))
			}
			if done == 1 {
				cancel()
			}
		}})
		cancel()
		if want := min(stopAfter, 1); len(calls) != want {
			t.Errorf("progress: got calls %v, want %d, one per creation that was tried, of\n%s", calls, want, plan)
		}
		if report.Converged() {
			t.Fatalf("run %d: got converged, want it interrupted", stopAfter)
		}
	}
	converge(t, c, want)
	wantKept(t, c, want)
}

func TestRepeatedCreationNeverChangesWhatExists(t *testing.T) {
	n := startNode(t, "shop")
	c := newClient(t, n)
	before := shop(stream(t, "A", `{"subjects":["a"]}`, consumer(t, "c", `{"ack_wait":1000000000,"ack_policy":"explicit"}`)))
	converge(t, c, before)
	after := shop(stream(t, "A", `{"subjects":["b"]}`, consumer(t, "c", `{"ack_wait":2000000000,"ack_policy":"explicit"}`)))
	report := c.Execute(t.Context(), bootstrap.Diff(after, bootstrap.Observed{}, nil), jetstream.Order{})
	if got := report.Results[0].Err; got == nil || !strings.HasSuffix(got.Error(), "(10058)") {
		t.Errorf("stream: got %v, want 10058", got)
	}
	// As if the stream had been there: its consumers are tried alone.
	only := bootstrap.Plan{Actions: bootstrap.Diff(after, bootstrap.Observed{}, nil).Actions[1:]}
	if got := c.Execute(t.Context(), only, jetstream.Order{}).Results[0].Err; got == nil || !strings.HasSuffix(got.Error(), "(10148)") {
		t.Errorf("consumer: got %v, want 10148", got)
	}
	wantKept(t, c, before)
}

func TestSubjectsMoveBetweenStreamsInOneApply(t *testing.T) {
	c := newClient(t, startNode(t, "shop"))
	converge(t, c, shop(stream(t, "A", `{"subjects":["a"]}`), stream(t, "B", `{"subjects":["b","x"]}`), stream(t, "C", `{"subjects":["c","y"]}`)))
	want := shop(stream(t, "A", `{"subjects":["a","x"]}`), stream(t, "B", `{"subjects":["b","y"]}`), stream(t, "C", `{"subjects":["c"]}`))
	converge(t, c, want)
	wantKept(t, c, want)
}

func TestMirrorIsMadeAfterItsOrigin(t *testing.T) {
	c := newClient(t, startNode(t, "shop"))
	want := shop(
		stream(t, "A", `{"mirror":{"name":"Z"}}`),
		stream(t, "Z", `{"subjects":["z"],"allow_direct":true}`),
	)
	converge(t, c, want)
	if got := observe(t, c, "shop").Accounts["shop"].Streams["A"].Config["mirror_direct"]; got != true {
		t.Errorf("mirror_direct: got %v, want true: the mirror did not see its origin when it was made", got)
	}
	wantKept(t, c, want)
}
