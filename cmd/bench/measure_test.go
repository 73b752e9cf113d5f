// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// fake is a measurement whose sides note that they ran and how long it took.
type fake struct {
	ran   []string
	clock time.Time
	takes time.Duration
	fails error
}

func (f *fake) now() time.Time { return f.clock }

func (f *fake) measurement(name string) measurement {
	one := func(who string, s sample) side {
		return side{who, func(context.Context) (sample, error) {
			f.ran = append(f.ran, who)
			f.clock = f.clock.Add(f.takes)
			return s, f.fails
		}}
	}
	return measurement{
		name:    name,
		figures: []figure{{"time", "time of " + name, seconds}, {"rss", "memory of " + name, mib}},
		ours:    one("holdfast", sample{"time": 2}),
		peer:    one("peer", sample{"time": 1, "rss": 5}),
	}
}

func TestSidesTakeTurnsAndTurnsToBegin(t *testing.T) {
	f := &fake{}
	var out strings.Builder
	rows, err := measureAll(t.Context(), []measurement{f.measurement("x")}, pace{pairs: 3, within: time.Hour, now: f.now}, &out)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"holdfast", "peer", "peer", "holdfast", "holdfast", "peer"}, f.ran); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	// The memory was read on one side only, so it is no row.
	want := []row{{What: "time of x", Unit: seconds, Peer: "peer", Holdfast: []float64{2, 2, 2}, Theirs: []float64{1, 1, 1}}}
	if diff := cmp.Diff(want, rows); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	if line := "x, pair 2 of 3: peer: time 1.00 s, rss 5.00 MiB\n"; !strings.Contains(out.String(), line) {
		t.Errorf("progress: got\n%swant the line %q", out.String(), line)
	}
}

func TestSlowDiskMakesFewerPairsButNeverOne(t *testing.T) {
	for _, c := range []struct {
		takes time.Duration // each side
		want  int           // pairs
	}{
		{time.Minute, 5},
		{2 * time.Minute, 2}, // the third would end after 12 minutes
		{time.Hour, 2},
	} {
		f := &fake{takes: c.takes}
		rows, err := measureAll(t.Context(), []measurement{f.measurement("x")}, pace{pairs: 5, within: 10 * time.Minute, now: f.now}, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(rows[0].Holdfast); got != c.want {
			t.Errorf("%s a side: got %d pairs, want %d", c.takes, got, c.want)
		}
	}
}

func TestFailureNamesMeasurementAndSide(t *testing.T) {
	f := &fake{fails: errors.New("disk on fire")}
	_, err := measureAll(t.Context(), []measurement{f.measurement("x")}, pace{pairs: 1, within: time.Hour, now: f.now}, io.Discard)
	if want := "measure x: holdfast: disk on fire"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestOnlyChoosesByName(t *testing.T) {
	f := &fake{}
	all := []measurement{f.measurement("empty"), f.measurement("large")}
	if got := chosen(all, regexp.MustCompile("^large$")); len(got) != 1 || got[0].name != "large" {
		t.Errorf("got %d measurements, want large alone", len(got))
	}
	if got := chosen(all, regexp.MustCompile("")); len(got) != 2 {
		t.Errorf("no expression: got %d measurements, want both", len(got))
	}
}
