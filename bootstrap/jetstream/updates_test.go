// SPDX-License-Identifier: Apache-2.0

package jetstream_test

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite ../testdata/updates.golden")

// TestUpdatesDoWhatTheGoldenFileSays sends every update to real servers. When a
// new server fails here, run it with -update, read the difference, and bring
// classify in line: bootstrap's TestClassifyAgreesWithTheRealServer then fails.
func TestUpdatesDoWhatTheGoldenFileSays(t *testing.T) {
	cases := updateCases(t)
	outcomes := make([][3]*outcome, len(cases))
	sites := []*site{startStandalone(t), startCluster(t)}
	t.Run("case", func(t *testing.T) {
		for i, c := range cases {
			for j, x := range []struct {
				*site
				replicas string
			}{{sites[0], ""}, {sites[1], ""}, {sites[1], "3"}} {
				if c.Only != "" && c.Only != x.name || x.replicas != "" && !c.R3 {
					continue
				}
				t.Run(fmt.Sprintf("%s %s %s %s%s", c.Kind, c.Field, c.Step, x.name, x.replicas), func(t *testing.T) {
					t.Parallel()
					nc := <-x.lanes
					// Registered first, so that it runs after the stream is deleted.
					t.Cleanup(func() { x.lanes <- nc })
					s := &subject{T: t, updateCase: c, site: x.site, nc: nc, name: fmt.Sprintf("T%d-%d", i, j), replicas: x.replicas}
					o := s.measure()
					outcomes[i][j] = &o
				})
			}
		}
	})
	if t.Failed() {
		return
	}
	compareGolden(t, goldenText(cases, outcomes))
}

func goldenText(cases []updateCase, outcomes [][3]*outcome) string {
	var b strings.Builder
	for i, c := range cases {
		var parts []string
		verdicts := map[string]bool{}
		last := ""
		for j, name := range []string{"standalone", "cluster", "R3"} {
			o := outcomes[i][j]
			if o == nil {
				continue
			}
			text := o.String()
			if text == last {
				text = "same"
			} else {
				last = text
			}
			parts = append(parts, name+" "+text)
			verdicts[o.verdict()] = true
		}
		var all []string
		for v := range verdicts {
			all = append(all, v)
		}
		slices.Sort(all)
		fmt.Fprintf(&b, "%s %s %s: %s → %s\n", c.Kind, c.Field, c.Step, strings.Join(parts, "; "), strings.Join(all, " or "))
	}
	return b.String()
}

func compareGolden(t *testing.T, got string) {
	t.Helper()
	const file = "../testdata/updates.golden"
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("the server does something else with an update (-golden +server):\n%s", diff)
	}
}
