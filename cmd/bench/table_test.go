// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func someRows() (environment, []row) {
	return environment{"holdfast 1.0.0", "nats-server 2.15.3", "go1.26.8", "linux/amd64", 2, "ext4"}, []row{
		{What: "restart", Unit: seconds, Peer: "nats-server", Holdfast: []float64{2, 3, 4}, Theirs: []float64{1, 2, 4}},
		{What: "idle memory", Unit: mib, Peer: "nats-server", Holdfast: []float64{120.4}, Theirs: []float64{240.8}},
	}
}

func TestQuantityShowsThreeDigits(t *testing.T) {
	for _, c := range []struct {
		v    float64
		unit string
		want string
	}{
		{0.0423, seconds, "42.3 ms"},
		{0.00042, seconds, "0.420 ms"},
		{1.234, seconds, "1.23 s"},
		{33.41, seconds, "33.4 s"},
		{220.6, mib, "221 MiB"},
		{1234.5, mib, "1234 MiB"},
		{0, mib, "0 MiB"},
	} {
		if got := quantity(c.v, c.unit); got != c.want {
			t.Errorf("%v %s: got %q, want %q", c.v, c.unit, got, c.want)
		}
	}
}

func TestMarkdownHoldsMediansRatioAndSpread(t *testing.T) {
	const want = "<!-- Made by `make bench`; README.md beside it says how to read it. -->\n" + `
holdfast 1.0.0 · nats-server 2.15.3 · go1.26.8 · linux/amd64 · 2 cores · ext4

| Measured | Holdfast | Beside it | Ratio (min–max) | Pairs |
|---|---|---|---|---|
| restart | 3.00 s | nats-server 2.00 s | 1.50 (1.00–2.00) | 3 |
| idle memory | 120 MiB | nats-server 241 MiB | 0.50 (0.50–0.50) | 1 |
`
	if diff := cmp.Diff(want, markdown(someRows())); diff != "" {
		t.Errorf("page (-want +got):\n%s", diff)
	}
}

func TestTextTableLinesUp(t *testing.T) {
	_, rows := someRows()
	var out strings.Builder
	writeText(&out, rows)
	const want = `measured     Holdfast  beside it            ratio (min–max)   pairs
restart      3.00 s    nats-server 2.00 s   1.50 (1.00–2.00)  3
idle memory  120 MiB   nats-server 241 MiB  0.50 (0.50–0.50)  1
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

func TestJSONHoldsEverySample(t *testing.T) {
	env, rows := someRows()
	path := filepath.Join(t.TempDir(), "out.json")
	if err := writeJSON(path, env, rows); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Environment environment
		Rows        []struct {
			row
			Median summary
		}
	}
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if got.Environment != env {
		t.Errorf("environment: got %+v, want %+v", got.Environment, env)
	}
	for i, r := range got.Rows {
		if diff := cmp.Diff(rows[i], r.row); diff != "" {
			t.Errorf("row %d (-want +got):\n%s", i, diff)
		}
		if want := rows[i].summary(); r.Median != want {
			t.Errorf("row %d: got %+v, want %+v", i, r.Median, want)
		}
	}
	if len(got.Rows) != len(rows) {
		t.Errorf("got %d rows, want %d", len(got.Rows), len(rows))
	}
}
