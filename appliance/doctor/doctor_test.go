// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"os"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// TestEveryCheckHasASection keeps docs/ops/doctor.md complete.
func TestEveryCheckHasASection(t *testing.T) {
	page, err := os.ReadFile("../../docs/ops/doctor.md")
	if err != nil {
		t.Fatal(err)
	}
	var described []About
	for _, m := range regexp.MustCompile("(?m)^### ([a-z-]+): (.+)\n\n\\S").FindAllSubmatch(page, -1) {
		described = append(described, About{string(m[1]), string(m[2])})
	}
	if diff := cmp.Diff(List(), described); diff != "" {
		t.Errorf("got other sections in docs/ops/doctor.md than checks (-checks +page):\n%s", diff)
	}
}

func TestRunRefusesACheckThatIsNone(t *testing.T) {
	_, err := Run(t.Context(), Input{}, []string{"clock", "clocks"}, func(string) {})
	if diag.CodeOf(err) != diag.CodeUsage || diag.Hint(err) == "" {
		t.Errorf("got %v, want an error of usage with a hint", err)
	}
}

func TestRunTellsOfEachCheckBeforeItBegins(t *testing.T) {
	var begun []string
	results, err := Run(t.Context(), Input{}, []string{"version", "config"}, func(name string) { begun = append(begun, name) })
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"config", "version"}, begun); diff != "" || len(results) != 2 {
		t.Errorf("got %d results and other checks than asked for, in the order of the list (-want +got):\n%s", len(results), diff)
	}
}

// TestTheWorstFindingIsTheVerdict: a check that can't see everything is no ok, and one
// that failed is not hidden by what can't be seen.
func TestTheWorstFindingIsTheVerdict(t *testing.T) {
	for _, c := range []struct {
		found []Verdict
		want  Verdict
	}{
		{nil, OK},
		{[]Verdict{Unknown}, Unknown},
		{[]Verdict{Warn, Unknown}, Warn},
		{[]Verdict{Unknown, Fail, Warn}, Fail},
	} {
		look := func(context.Context, *machine) report {
			r := report{evidence: "measured"}
			for _, v := range c.found {
				r.find(v, "e", "c", "# f")
			}
			return r
		}
		got := check{name: "x", title: "y", look: look}.run(t.Context(), newMachine(Input{}))
		if got.Verdict != c.want || got.Findings == nil || Failed([]Result{got}) != (c.want == Fail) {
			t.Errorf("got %+v from %v, want %s", got, c.found, c.want)
		}
	}
}

func TestQuotedWordsSurviveAShell(t *testing.T) {
	for word, want := range map[string]string{"/var/lib/holdfast": "/var/lib/holdfast", "a b": "'a b'", "it's": `'it'\''s'`, "$(x)": "'$(x)'", "": "''"} {
		if got := quote(word); got != want {
			t.Errorf("got %s for %q, want %s", got, word, want)
		}
	}
}
