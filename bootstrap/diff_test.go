// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"encoding/json"
	"flag"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// parse reads a JSON object the way both the configuration and the server give it.
func parse(t *testing.T, text string) map[string]any {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return m
}

func line(n int) diag.Pos { return diag.Pos{File: "holdfast.yaml", Line: n, Col: 7} }

// example has one object of every kind of result.
func example(t *testing.T) (Topology, Observed, map[string]string) {
	t.Helper()
	want := Topology{Accounts: []Account{
		{Name: "lab", Streams: []Stream{{Name: "PROBES", Pos: line(3), Set: parse(t, `{"subjects":["probe"]}`)}}},
		{Name: "shop", Streams: []Stream{
			{
				Name: "COPY", Pos: line(10),
				Set: parse(t, `{"mirror":{"name":"ORDERS"}}`), Defaults: parse(t, `{"storage":"file"}`),
				Consumers: []Consumer{{Name: "reader", Pos: line(12)}},
			},
			{
				Name: "EVENTS", Pos: line(20),
				Set: parse(t, `{"subjects":["events.>"],"max_bytes":2147483648,"max_age":604800000000000,
					"description":"all of them","consumer_limits":{"max_ack_pending":10},"allow_direct":true}`),
				Fields: map[string]diag.Pos{"max_bytes": line(22), "max_age": line(23), "consumer_limits": line(24), "description": line(26)},
				Consumers: []Consumer{{
					Name: "w", Pos: line(30),
					Set:    parse(t, `{"backoff":[1000000000,60000000000],"filter_subject":"events.a","max_deliver":-1}`),
					Fields: map[string]diag.Pos{"backoff": line(31), "filter_subject": line(32), "max_deliver": line(33)},
				}},
			},
			{Name: "AGAIN", Pos: line(34), Set: parse(t, `{"subjects":["again"]}`)},
			{Name: "EDITED", Pos: line(35), Set: parse(t, `{"description":"of the file","max_msgs":7}`)},
			{Name: "FULL", Pos: line(36), Set: parse(t, `{"max_msgs":100,"max_age":3600000000000,"storage":"memory","first_seq":9,"deny_purge":true,"mirror":{}}`)},
			{Name: "HALF", Pos: line(37), Set: parse(t, `{"storage":"memory"}`)},
			{Name: "MORE", Pos: line(39), Set: parse(t, `{"num_replicas":3}`)},
			{Name: "WIDE", Pos: line(38), Set: parse(t, `{"num_replicas":3,"description":"later"}`), Consumers: []Consumer{{Name: "x", Pos: line(38)}}},
			{Name: "KEPT", Pos: line(40), Set: parse(t, `{"max_msgs":0}`)},
			{Name: "ORDERS", Pos: line(50), Set: parse(t, `{"subjects":["orders"]}`)},
			{Name: "OFFLINE", Pos: line(60), Consumers: []Consumer{{Name: "x", Pos: line(61)}}},
		}},
	}}
	have := Observed{Accounts: map[string]ObservedAccount{
		"lab":  {Unavailable: "list streams: timeout"},
		"free": {Streams: map[string]ObservedStream{"KV_x": {}}},
		"shop": {Streams: map[string]ObservedStream{
			"EVENTS": {
				Config: parse(t, `{"name":"EVENTS","subjects":["events.>"],"max_bytes":1073741824,"max_age":5400000000000,
					"description":"a\u001b[31mb","consumer_limits":{"max_ack_pending":-1}}`),
				Consumers: map[string]ObservedConsumer{
					"w":    {Config: parse(t, `{"durable_name":"w","filter_subjects":["events.a","events.b"],"max_deliver":5}`)},
					"gone": {Config: parse(t, `{"durable_name":"gone","metadata":{"holdfast.managed":"true"}}`)},
					"hand": {Config: parse(t, `{"durable_name":"hand"}`)},
					"temp": {Config: parse(t, `{"name":"temp"}`)},
				},
			},
			"EDITED": {Config: parse(t, `{"name":"EDITED","description":"by hand","max_msgs":9}`)},
			"FULL": {
				Config: parse(t, `{"name":"FULL","max_msgs":-1,"max_age":0,"storage":"file","mirror":{"name":"ORIGIN"},"duplicate_window":120000000000}`),
				State:  StreamState{Messages: 1500, Bytes: 3 << 20},
			},
			// Of `holdfast bench`, so nobody is told of it.
			"HOLDFAST_BENCH_x": {Config: parse(t, `{"metadata":{"holdfast.bench":"scratch"}}`), Consumers: map[string]ObservedConsumer{"workers": {}}},
			CopyName("HALF"):   {Config: map[string]any{"name": CopyName("HALF"), "metadata": map[string]any{MetaCopyOf: "HALF"}}},
			"KEPT":             {Config: parse(t, `{"max_msgs":-1}`)},
			"MORE":             {Config: parse(t, `{"retention":"interest","num_replicas":1}`)},
			"WIDE":             {Config: map[string]any{"retention": "limits", "metadata": map[string]any{MetaWidened: "{}"}}},
			"OFFLINE":          {Unavailable: "unsupported"},
			"OLD":              {Config: parse(t, `{"metadata":{"holdfast.managed":"true"}}`), Consumers: map[string]ObservedConsumer{"c": {}}},
		}},
	}}
	// Of what is in the file now, this was in it before.
	before := want.Objects()
	applied := map[string]string{"shop/AGAIN": before["shop/AGAIN"], "shop/EDITED": before["shop/EDITED"], "shop/EVENTS": "something else"}
	return want, have, applied
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

func TestPlanText(t *testing.T) {
	golden(t, "testdata/plan.golden", Diff(example(t)).String())
}

func TestPlanTextIsTheSameAfterJSON(t *testing.T) {
	plan := Diff(example(t))
	text, err := json.Marshal(plan)
	if err != nil {
		t.Fatal(err)
	}
	var back Plan
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(plan.String(), back.String()); diff != "" {
		t.Errorf("text (-before +after):\n%s", diff)
	}
}

func TestWarningsNameEveryDifferenceAndWhatHoldfastNoLongerDeclares(t *testing.T) {
	var b strings.Builder
	diag.Print(&b, Diff(example(t)).Warnings(), nil)
	golden(t, "testdata/warnings.golden", b.String())
}

func TestDiffIsTheSameForTheSameInput(t *testing.T) {
	want, have, applied := example(t)
	first, err := json.Marshal(Diff(want, have, applied))
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		for _, a := range want.Accounts {
			rand.Shuffle(len(a.Streams), func(i, j int) { a.Streams[i], a.Streams[j] = a.Streams[j], a.Streams[i] })
		}
		again, err := json.Marshal(Diff(want, have, applied))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(first), string(again)); diff != "" {
			t.Fatalf("plan of the same input (-first +again):\n%s", diff)
		}
	}
}

func TestOriginsComeBeforeTheirCopies(t *testing.T) {
	for name, tc := range map[string]struct {
		streams map[string]string
		want    string
	}{
		"chain":               {map[string]string{"A": `{"mirror":{"name":"B"}}`, "B": `{"mirror":{"name":"C"}}`, "C": `{}`}, "C B A"},
		"sources":             {map[string]string{"A": `{"sources":[{"name":"C"},{"name":"B"}]}`, "B": `{}`, "C": `{}`}, "C B A"},
		"external":            {map[string]string{"A": `{"mirror":{"name":"B","external":{"api":"$JS.hub.API"}}}`, "B": `{}`}, "A B"},
		"cycle":               {map[string]string{"A": `{"sources":[{"name":"B"}]}`, "B": `{"sources":[{"name":"A"}]}`, "C": `{}`}, "B A C"},
		"itself":              {map[string]string{"A": `{"mirror":{"name":"A"}}`}, "A"},
		"origin not declared": {map[string]string{"A": `{"mirror":{"name":"X"}}`}, "A"},
	} {
		t.Run(name, func(t *testing.T) {
			account := Account{Name: "a"}
			for n, s := range tc.streams {
				account.Streams = append(account.Streams, Stream{Name: n, Set: parse(t, s)})
			}
			var got []string
			for _, a := range Diff(Topology{Accounts: []Account{account}}, Observed{}, nil).Actions {
				got = append(got, a.Stream)
			}
			if s := strings.Join(got, " "); s != tc.want {
				t.Errorf("got %q, want %q", s, tc.want)
			}
		})
	}
}

func TestSpecIsDefaultsUnderWhatIsSetWithStamps(t *testing.T) {
	s := Stream{
		Name:     "S",
		Set:      parse(t, `{"discard":"old","consumer_limits":{"max_ack_pending":5},"max_age":null,"metadata":{"team":"a","holdfast.managed":"no"}}`),
		Defaults: parse(t, `{"storage":"file","discard":"new","consumer_limits":{"inactive_threshold":7}}`),
		Consumers: []Consumer{{
			Name: "c", Set: parse(t, `{"ack_wait":1}`), Defaults: parse(t, `{"ack_policy":"explicit","ack_wait":2}`),
		}},
	}
	plan := Diff(Topology{Accounts: []Account{{Name: "a", Streams: []Stream{s}}}}, Observed{}, nil)
	for i, want := range []string{
		`{"name":"S","storage":"file","discard":"old","consumer_limits":{"max_ack_pending":5,"inactive_threshold":7},
			"metadata":{"team":"a","holdfast.managed":"true"}}`,
		`{"name":"c","durable_name":"c","ack_policy":"explicit","ack_wait":1,
			"metadata":{"holdfast.managed":"true"}}`,
	} {
		if diff := cmp.Diff(parse(t, want), plan.Actions[i].Spec); diff != "" {
			t.Errorf("spec (-want +got):\n%s", diff)
		}
	}
	if s.Set["name"] != nil || len(s.Set["metadata"].(map[string]any)) != 2 {
		t.Errorf("declared fields after Diff: got %v, want them untouched", s.Set)
	}
}
