// SPDX-License-Identifier: Apache-2.0

package jetstream_test

import (
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/holdfast-mq/holdfast/bootstrap"
	"github.com/holdfast-mq/holdfast/bootstrap/jetstream"
)

// shape is the topology of a case: the stream T, its consumer, and what it copies.
func (tc fieldCase) shape(t *testing.T) bootstrap.Topology {
	t.Helper()
	s := bootstrap.Stream{Name: "T", Set: maps.Clone(tc.Stream), Defaults: set(t, `{"storage":"file"}`)}
	if tc.Stream["subjects"] == nil && tc.Stream["mirror"] == nil && tc.Stream["sources"] == nil {
		s.Set["subjects"] = []any{"t.>"}
	}
	if tc.Consumer != nil {
		s.Consumers = []bootstrap.Consumer{{Name: "c", Set: tc.Consumer, Defaults: set(t, `{"ack_policy":"explicit"}`)}}
	}
	return shop(s, stream(t, "ORIGIN", `{"subjects":["origin.>"]}`), stream(t, "DIRECT", `{"subjects":["direct.>"],"allow_direct":true}`))
}

// conflicts are why a file can't become true: what it says does not go together with
// what it does not say and the server has.
var conflicts = []string{
	"violates consumers",                  // limits for consumers that the file leaves without
	"would skip it",                       // a start behind what is not acknowledged
	"requires explicit ack",               // a work queue whose retention the file does not set
	"not allowed on workqueue",            // as above
	"must be deliver all on workqueue",    // as above
	"has scheduled messages",              // which would fire twice
	"positions can't be carried over",     // of sources that the file leaves without
	"can not be used with push consumers", // a deliver_subject that the file does not set
	"counter stream cannot use",           // counters that the file does not set
}

// TestEveryFieldConvergesFromWhereverItWas goes from nothing set to each case, and
// from some cases to others, with consent to everything. The plan after it is empty,
// and every message is there that no action was allowed to remove.
func TestEveryFieldConvergesFromWhereverItWas(t *testing.T) {
	n := startNode(t, "shop")
	c := newClient(t, n)
	nc := connect(t, n, "shop")
	cases := fieldCases(t)
	type move struct{ from, to fieldCase }
	var moves []move
	for _, tc := range cases {
		moves = append(moves, move{cases[0], tc})
	}
	// The same pairs each time, so that a failure is of the change under test; other
	// ones with TEST_SEED.
	seed := uint64(1)
	if text := os.Getenv("TEST_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	random := rand.New(rand.NewPCG(seed, 0))
	at := func(name string) fieldCase {
		return cases[slices.IndexFunc(cases, func(tc fieldCase) bool { return tc.Name == name })]
	}
	moves = append(moves, move{at("no ack"), at("persist mode async")}, move{at("no ack"), at("retention workqueue")})
	for range 60 {
		moves = append(moves, move{cases[random.IntN(len(cases))], cases[random.IntN(len(cases))]})
	}
	for _, m := range moves {
		t.Run(m.from.Name+" to "+m.to.Name, func(t *testing.T) {
			t.Cleanup(func() {
				if t.Failed() {
					t.Logf("seed %d", seed)
				}
				call(t, nc, "STREAM.DELETE.T", "")
			})
			converge(t, c, m.from.shape(t))
			fill(t, nc, c)
			before := observe(t, c, "shop").Accounts["shop"].Streams["T"].State.Messages

			want := m.to.shape(t)
			if m.from.Stream["mirror"] != nil && m.to.Stream["mirror"] == nil {
				want.Accounts[0].Streams[0].Set["mirror"] = map[string]any{} // to promote it
			}
			first, dropped, failed := bootstrap.Plan{}, false, error(nil)
			for round := 0; ; round++ {
				plan := bootstrap.Diff(want, observe(t, c, "shop"), nil)
				if round == 0 {
					first = plan
				}
				if plan.Empty() || slices.ContainsFunc(conflicts, func(text string) bool { return failed != nil && strings.Contains(failed.Error(), text) }) {
					break
				}
				if round == 3 {
					t.Fatalf("plan after 3 rounds: got\n%sand %v, want it empty; the first was\n%s", plan, failed, first)
				}
				dropped = dropped || plan.Count(bootstrap.Drop) > 0
				for _, a := range plan.Actions {
					dropped = dropped || a.Op == bootstrap.Recreate && a.Loss != nil
				}
				failed = c.Execute(t.Context(), plan, agreed("T")).Err()
			}
			if after := observe(t, c, "shop").Accounts["shop"].Streams["T"].State.Messages; after < before && !dropped {
				t.Errorf("got %d messages after it, want the %d from before; the plan was\n%s", after, before, first)
			}
		})
	}
}

// fill publishes where the stream listens, and takes and acknowledges a message.
func fill(t *testing.T, nc *nats.Conn, c *jetstream.Client) {
	t.Helper()
	have := observe(t, c, "shop").Accounts["shop"].Streams["T"]
	subjects, _ := have.Config["subjects"].([]any)
	if len(subjects) == 0 || have.Config["allow_msg_counter"] == true {
		return
	}
	subject, _ := subjects[0].(string)
	for i := range 5 {
		at := []byte(subject)
		if last := len(at) - 1; at[last] == '>' || at[last] == '*' {
			at[last] = 'a' + byte(i)
		}
		if have.Config["no_ack"] == true {
			if err := nc.Publish(string(at), []byte("x")); err != nil {
				t.Fatal(err)
			}
			continue
		}
		// A limit of the case may refuse it.
		if _, err := nc.Request(string(at), []byte("x"), patience); err != nil {
			t.Fatalf("publish to %q: %v", at, err)
		}
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
}
