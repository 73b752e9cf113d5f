// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-mq/holdfast/appliance/config"
)

// measured is one line of testdata/updates.golden, which the tests of
// bootstrap/jetstream write, with the case of testdata/updates.json it is about.
type measured struct {
	Kind                      Kind
	Field, Step, Other        string
	Alone                     bool
	Have, Prepare, Want, With map[string]any
	Stream                    map[string]any
	told, verdict, together   string
}

func measurements(t *testing.T) []measured {
	t.Helper()
	text, err := os.ReadFile("testdata/updates.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []measured
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	if err := d.Decode(&cases); err != nil {
		t.Fatal(err)
	}
	golden, err := os.ReadFile("testdata/updates.golden")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(golden)), "\n")
	if len(lines) != len(cases) {
		t.Fatalf("got %d lines in updates.golden for %d cases: run `go test ./bootstrap/jetstream -update`", len(lines), len(cases))
	}
	for i := range cases {
		m := &cases[i]
		name := fmt.Sprintf("%s %s %s: ", m.Kind, m.Field, m.Step)
		rest, ok := strings.CutPrefix(lines[i], name)
		if !ok {
			t.Fatalf("updates.golden: got %q, want a line that starts with %q: run `go test ./bootstrap/jetstream -update`", lines[i], name)
		}
		m.told, m.verdict, _ = strings.Cut(rest, " → ")
		_, m.together, _ = strings.Cut(m.told, "; together ")
		m.together, _, _ = strings.Cut(m.together, ";")
	}
	return cases
}

// class is what classify says of the case, its change together with more.
func (m measured) class(field string, more map[string]any) (Class, string) {
	have := map[string]any{"retention": "limits", "discard": "old", "storage": "file", "subjects": []any{"t.*"}}
	if m.Kind == KindConsumer {
		have = map[string]any{"durable_name": "c", "ack_policy": "explicit"}
	}
	have = applied(have, m.Have, m.Prepare)
	want := applied(have, m.Want, more)
	c := FieldChange{Field: field, Have: have[field], Want: want[field]}
	return classify(m.Kind, c, have, want, m.Stream)
}

// applied returns a copy of base with each of over on top; null takes away.
func applied(base map[string]any, over ...map[string]any) map[string]any {
	out := maps.Clone(base)
	for _, o := range over {
		maps.Copy(out, o)
	}
	maps.DeleteFunc(out, func(_ string, v any) bool { return v == nil })
	return out
}

func TestClassifyAgreesWithTheRealServer(t *testing.T) {
	for _, m := range measurements(t) {
		if m.Other != "" || m.With != nil && !m.Alone {
			continue
		}
		class, why := m.class(m.Field, nil)
		agrees := map[string][]Class{
			"in place": {InPlace}, "drops data": {Drops}, "one-way": {OnlyOnce},
			"refused": {Anew, Never}, "without effect": {Anew, Never},
		}[m.verdict]
		if !slices.Contains(agrees, class) {
			t.Errorf("%s %s %s: got class %q (%s), the server says %q: %s", m.Kind, m.Field, m.Step, class, why, m.verdict, m.told)
		}
		if class != InPlace && why == "" {
			t.Errorf("%s %s %s: got class %q without a reason", m.Kind, m.Field, m.Step, class)
		}
	}
}

func TestNeedsAreWhatTheServerWantsTogether(t *testing.T) {
	proved := map[string]bool{}
	for _, m := range measurements(t) {
		at := fmt.Sprintf("%s %s %s", m.Kind, m.Field, m.Step)
		if m.With == nil {
			continue
		}
		class, why := m.class(m.Field, m.With)
		for field := range m.With {
			if _, both := m.Want[field]; both {
				continue
			}
			pair := m.Field + " " + field
			if proved[pair] = true; !slices.Contains(needs[m.Field], field) && field != "max_waiting" {
				t.Errorf("%s: needs has no %q", at, pair)
			}
			partner, _ := m.class(field, m.With)
			if m.together == "accepted" && (class == Anew || class == Never || partner == Anew || partner == Never) {
				t.Errorf("%s with %s: got %s (%s) and %s, want both in one update", at, field, class, why, partner)
			}
			if m.together != "accepted" && partner != Anew && field != "max_waiting" {
				t.Errorf("%s with %s: got %s, want %s: the server says %q", at, field, partner, Anew, m.together)
			}
		}
	}
	for field, others := range needs {
		for _, other := range others {
			if !proved[field+" "+other] {
				t.Errorf("needs: nothing in testdata/updates.json shows that %s needs %s", field, other)
			}
		}
	}
}

func TestApartIsWhatTheServerRefusesTogether(t *testing.T) {
	proved := map[string]bool{}
	for _, m := range measurements(t) {
		_, moves := m.Want["placement"]
		if moves && m.Field != "placement" && strings.Contains(m.told, "refused 10123 ") {
			proved[m.Field] = true
		}
	}
	for _, field := range apart["placement"] {
		if !proved[field] {
			t.Errorf("apart: nothing in testdata/updates.golden shows that %s may not change with placement", field)
		}
	}
}

func TestEveryOfferedFieldHasAClassAndIsMeasured(t *testing.T) {
	cases := measurements(t)
	for kind, fields := range map[Kind][]string{
		KindStream: config.APIFields[config.Stream](), KindConsumer: config.APIFields[config.Consumer](),
	} {
		for _, f := range fields {
			if _, why := classify(kind, FieldChange{Field: f, Want: true}, map[string]any{}, map[string]any{f: true}, nil); why == reasonNotKnown {
				t.Errorf("%s field %s: got no class", kind, f)
			}
			if !slices.ContainsFunc(cases, func(m measured) bool { return m.Kind == kind && FieldChange{Field: m.Field}.key() == f }) {
				t.Errorf("%s field %s: got no case in testdata/updates.json", kind, f)
			}
		}
		if class, why := classify(kind, FieldChange{Field: "nonsense"}, nil, nil, nil); class != Never || why != reasonNotKnown {
			t.Errorf("unknown %s field: got %s (%s), want %s (%s)", kind, class, why, Never, reasonNotKnown)
		}
	}
}

func TestEntailedChangesAreThoseTheServerRequires(t *testing.T) {
	for _, tc := range []struct {
		name, have, set string
		want            []string
	}{
		{"an age below the window", `{"duplicate_window":120,"max_age":0}`, `{"max_age":60}`, []string{"duplicate_window=60"}},
		{"an age above the window", `{"duplicate_window":120}`, `{"max_age":600}`, nil},
		{"no age", `{"duplicate_window":120,"max_age":600}`, `{"max_age":0}`, nil},
		{"no window", `{"max_age":600}`, `{"max_age":60}`, nil},
		{"the window is set, too", `{"duplicate_window":120}`, `{"max_age":60,"duplicate_window":30}`, nil},
		{"discard old", `{"discard":"new","max_msgs_per_subject":5,"discard_new_per_subject":true}`, `{"discard":"old"}`, []string{"discard_new_per_subject=false"}},
		{"no limit per subject", `{"discard":"new","max_msgs_per_subject":5,"discard_new_per_subject":true}`, `{"max_msgs_per_subject":-1}`, []string{"discard_new_per_subject=false"}},
		{"another limit per subject", `{"discard":"new","max_msgs_per_subject":5,"discard_new_per_subject":true}`, `{"max_msgs_per_subject":3}`, nil},
	} {
		have, set := parse(t, tc.have), parse(t, tc.set)
		var changes []FieldChange
		for f, v := range set {
			changes = append(changes, FieldChange{Field: f, Have: have[f], Want: v})
		}
		var got []string
		for _, c := range entailed(KindStream, changes, have, applied(have, set)) {
			got = append(got, fmt.Sprintf("%s=%v", c.Field, c.Want))
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
}
