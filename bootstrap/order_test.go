// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"strings"
	"testing"
)

// plainly is a topology and what the server has, from stream names to configurations.
func plainly(t *testing.T, want, have map[string]string) (Topology, Observed) {
	t.Helper()
	account := Account{Name: "a"}
	for _, name := range union(want, map[string]string{}) {
		account.Streams = append(account.Streams, Stream{Name: name, Set: parse(t, want[name]), Defaults: parse(t, `{"storage":"file","discard":"new"}`)})
	}
	seen := ObservedAccount{Streams: map[string]ObservedStream{}}
	for name, text := range have {
		seen.Streams[name] = ObservedStream{Config: parse(t, text), State: StreamState{Messages: 3}}
	}
	return Topology{Accounts: []Account{account}}, Observed{Accounts: map[string]ObservedAccount{"a": seen}}
}

func TestASubjectIsGivenUpBeforeItIsTaken(t *testing.T) {
	const managed = `,"metadata":{"holdfast.managed":"true"}}`
	for name, tc := range map[string]struct {
		want, have map[string]string
		order      string
	}{
		"moved to an earlier name": {
			map[string]string{"A": `{"subjects":["a","x"]}`, "B": `{"subjects":["b"]}`},
			map[string]string{"A": `{"subjects":["a"]` + managed, "B": `{"subjects":["b","x"]` + managed}, "B A",
		},
		"moved to a new stream, by a wildcard": {
			map[string]string{"A": `{"subjects":["x.>"]}`, "B": `{"subjects":["b"]}`},
			map[string]string{"B": `{"subjects":["b","x.y"]` + managed}, "B A",
		},
		"handed on twice": {
			map[string]string{"A": `{"subjects":["y"]}`, "B": `{"subjects":["z"]}`, "C": `{"subjects":["c"]}`},
			map[string]string{"A": `{"subjects":["a"]` + managed, "B": `{"subjects":["y"]` + managed, "C": `{"subjects":["z"]` + managed}, "C B A",
		},
		"swapped": {
			map[string]string{"A": `{"subjects":["b"]}`, "B": `{"subjects":["a"]}`},
			map[string]string{"A": `{"subjects":["a"]` + managed, "B": `{"subjects":["b"]` + managed}, "B A",
		},
	} {
		t.Run(name, func(t *testing.T) {
			want, have := plainly(t, tc.want, tc.have)
			var got []string
			for _, a := range Diff(want, have, nil).Actions {
				got = append(got, a.Stream)
			}
			if s := strings.Join(got, " "); s != tc.order {
				t.Errorf("got %q, want %q", s, tc.order)
			}
		})
	}
}

func TestASwapIsSaidToBeRefused(t *testing.T) {
	want, have := plainly(t, map[string]string{"A": `{"subjects":["b"]}`, "B": `{"subjects":["a"]}`},
		map[string]string{"A": `{"subjects":["a"]}`, "B": `{"subjects":["b"]}`})
	text := Diff(want, have, nil).String()
	for _, part := range []string{"stream   a/B: the server refuses it while stream A has", "stream   a/A: the server refuses it while stream B has"} {
		if !strings.Contains(text, part) {
			t.Errorf("got\n%s\nwant it to contain %q", text, part)
		}
	}
}

func TestPlanSaysWhatTheServerWillRefuse(t *testing.T) {
	want, have := plainly(t,
		map[string]string{"NEW": `{"subjects":["x"]}`, "SRC": `{"subjects":["src"],"storage":"memory"}`, "AGG": `{"subjects":["agg"]}`},
		map[string]string{
			"HAND": `{"subjects":["x"]}`, "SRC": `{"subjects":["src"],"storage":"file"}`,
			"AGG": `{"subjects":["agg"],"sources":[{"name":"SRC"}],"storage":"memory","discard":"old"}`,
		})
	text := Diff(want, have, nil).String()
	for _, part := range []string{
		"create    stream   a/NEW: the server refuses it while stream HAND has one of the subjects",
		"blocked   stream   a/SRC",
		"and stream AGG has it as a source and would copy everything a second time",
		"Was not made by Holdfast and is in the file now",
		"discard stays old, where Holdfast makes it new",
		"storage stays memory, where Holdfast makes it file",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("got\n%s\nwant it to contain %q", text, part)
		}
	}
}

func TestWhatWasChangedByHandStaysKnownAsSuch(t *testing.T) {
	want, have := plainly(t,
		map[string]string{"A": `{"description":"file"}`, "B": `{"description":"new"}`, "C": `{"max_msgs":5}`},
		map[string]string{"A": `{"description":"hand"}`, "B": `{"description":"old"}`, "C": `{"max_msgs":-1}`})
	objects := want.Objects()
	plan := Diff(want, have, map[string]string{"a/A": objects["a/A"], "a/B": "something older"})
	report := Report{}
	for _, a := range plan.Actions {
		res := Result{Action: a, Outcome: Done}
		if a.Consent != NoConsent {
			res.Outcome = Skipped
		}
		report.Results = append(report.Results, res)
	}
	settled := report.Settled(objects, nil)
	if settled["a/A"] == "" || settled["a/B"] == "" || settled["a/C"] != "" {
		t.Errorf("got %v settled, want A, which was changed by hand, and B, which is done, and not C", settled)
	}
	if got, want := report.Summary(), "1 updated, 2 left"; got != want {
		t.Errorf("got summary %q, want %q", got, want)
	}
	report.Results[1].Outcome = Failed
	if !report.Retry() || !report.Converged() {
		t.Errorf("got retry %t and converged %t after a failed update, want another try of a node that is ready", report.Retry(), report.Converged())
	}
}
