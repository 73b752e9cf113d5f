// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/admin"
	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/appliance/loadtest"
)

func TestBenchRefusesFlagsThatCannotBeMeant(t *testing.T) {
	for _, flags := range []string{
		"--size 15", "--size 65MiB", "--size many", "--space 1", "--space lots", "--space 2TiB", "--size 1MiB --space 32MiB",
		"--publishers 0", "--publishers 1001", "--workers 0", "--workers 1001", "--for 99ms", "--for 61s", "--retention interest", "--tlscert x", "--tlskey x",
	} {
		got := invoke(t, append([]string{"bench", "queue", "--data-dir", t.TempDir()}, strings.Fields(flags)...)...)
		if got.code != exitUsage || !strings.Contains(got.err, "hint: ") || got.out != "" {
			t.Errorf("%s: got exit code %d and %q, want 2 and a hint", flags, got.code, got.err)
		}
	}
}

func TestBenchRefusesWhatDoesNotFit(t *testing.T) {
	const mib = 1 << 20
	for name, c := range map[string]struct {
		storage admin.Storage
		want    string // "" is room enough
	}{
		"room":          {admin.Storage{Limit: 300 * mib, Reserved: 44 * mib, VolumeTotal: 1000 * mib, VolumeFree: 306 * mib}, ""},
		"reserved":      {admin.Storage{Limit: 300 * mib, Reserved: 45 * mib, VolumeTotal: 1000 * mib, VolumeFree: 900 * mib}, "the node has 255 MiB left"},
		"used":          {admin.Storage{Limit: 300 * mib, Used: 350 * mib, VolumeTotal: 1000 * mib, VolumeFree: 900 * mib}, "the node has 0 B left"},
		"volume":        {admin.Storage{Limit: 300 * mib, VolumeTotal: 1000 * mib, VolumeFree: 305 * mib}, "(5 % of it stay free) has 255 MiB left"},
		"nothing known": {admin.Storage{}, ""},
	} {
		err := checkRoom(c.storage, 256*mib)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: got %v, want room", name, err)
		case c.want != "" && (diag.CodeOf(err) != diag.CodeNoRoom || !strings.Contains(err.Error(), c.want) || diag.Hint(err) == ""):
			t.Errorf("%s: got %v, want %q and a hint", name, err, c.want)
		}
	}
}

func TestBenchAsksBeforeItSlowsClientsDown(t *testing.T) {
	for name, c := range map[string]struct {
		clients         int
		yes, terminal   bool
		output, answer  string
		want, questions string
	}{
		"nobody there":       {output: "text"},
		"yes":                {clients: 2, yes: true, output: "json"},
		"no terminal":        {clients: 2, output: "text", want: "no terminal to ask on"},
		"json":               {clients: 2, terminal: true, output: "json", want: "nobody is asked"},
		"answered with no":   {clients: 2, terminal: true, output: "text", answer: "\n", want: "nothing was measured", questions: "about 20s; 2 clients connected"},
		"answered with yes":  {clients: 1, terminal: true, output: "text", answer: "y\n", questions: "1 client connected"},
		"nobody answers":     {clients: 1, terminal: true, output: "text", want: "nothing was measured", questions: "Measure? [y/N]"},
		"nobody to be asked": {terminal: true, output: "text"},
	} {
		file := filepath.Join(t.TempDir(), "answer")
		writeFile(t, file, c.answer)
		in, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		var errs bytes.Buffer
		b := benching{std: stdio{in: in, err: &errs}, g: &globals{output: c.output}, isTerminal: func(any) bool { return c.terminal }, yes: c.yes,
			load: loadtest.Load{For: 5 * time.Second}}
		err = b.agree(admin.Status{Traffic: admin.Traffic{Connections: c.clients}})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
		if !strings.Contains(errs.String(), c.questions) || c.questions == "" && errs.Len() > 0 {
			t.Errorf("%s: got %q asked, want %q", name, errs.String(), c.questions)
		}
	}
}

// measured is the report of a run.
func measured(change func(*benchReport)) benchReport {
	r := benchReport{
		Node: "hf-plant7", Account: "shop", Durability: "strict", GroupCommit: true, Retention: "workqueue", Publishers: 16, Workers: 1, Size: 256, ForSeconds: 5,
		Phases: []benchPhase{
			{Name: loadtest.PhasePublish, Messages: 27012, Seconds: 5.001, MessagesPerSecond: 5401.3, BytesPerSecond: 1382733, Ack: &benchLatency{0.00297, 0.0061, 0.0232}},
			{Name: loadtest.PhaseConsume, Messages: 27012, Seconds: 4.8, MessagesPerSecond: 5627.5, BytesPerSecond: 1440640},
			{
				Name: loadtest.PhaseEndToEnd, Messages: 17010, Seconds: 5.01, MessagesPerSecond: 3395.2, BytesPerSecond: 869172,
				Ack: &benchLatency{0.000421, 0.00999, 0.121}, Delivery: &benchLatency{0.0047, 0.031, 1.25},
			},
		},
		Acknowledged: 44022, Stored: 44022, Consumed: 44022,
		Comparison: &comparison{Durability: "interval", SyncIntervalSeconds: 1, TimesFaster: 7.89,
			Publish: benchPhase{MessagesPerSecond: 42620, Ack: &benchLatency{0.00031, 0.002, 0.01}}},
	}
	if change != nil {
		change(&r)
	}
	return r
}

func TestBenchPrintsWhatItMeasured(t *testing.T) {
	for name, change := range map[string]func(*benchReport){
		"usual": nil,
		"full": func(r *benchReport) {
			r.Phases[0].Full, r.Redelivered = true, 2
			r.Comparison.TimesFaster = 1.19
		},
		"skipped": func(r *benchReport) {
			r.GroupCommit, r.GroupCommitOff = false, "in durability interval there is no fsync to share"
			r.Comparison, r.ComparisonSkipped = nil, "the node itself is in durability interval"
		},
		"none": func(r *benchReport) { r.GroupCommit, r.GroupCommitOff, r.Comparison = false, "--no-group-commit", nil },
	} {
		var out bytes.Buffer
		printBench(&out, measured(change))
		sameAsFile(t, "testdata/bench/"+name+".txt", out.String())
	}
}

func TestBenchLeavesALineForEachPhase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var errs bytes.Buffer
		b := benching{std: stdio{err: &errs}, g: &globals{output: "text"}, isTerminal: func(any) bool { return false }}
		ended := b.observer("")(loadtest.PhasePublish, 5*time.Second, func() int { return 4000 })
		<-time.After(1500 * time.Millisecond)
		ended(&loadtest.Phase{Messages: 20000, Took: 5 * time.Second})
		b.observer("")(loadtest.PhaseConsume, 0, func() int { return 0 })(nil)
		const want = "publish: 4,000 messages in 1.0s of 5s, 4,000/s\npublish: 20,000 messages in 5.0s, 4,000/s\n"
		if errs.String() != want {
			t.Errorf("got %q, want %q", errs.String(), want)
		}
	})
}

func TestCompareSaysWhyItIsNot(t *testing.T) {
	for name, c := range map[string]struct {
		durability string
		none       bool
		want       string
	}{
		"interval":  {durability: "interval", want: "the node itself is in durability interval"},
		"not asked": {durability: "strict", none: true},
	} {
		b := benching{std: stdio{err: io.Discard}, g: &globals{output: "text"}, noCompare: c.none}
		report := measured(func(r *benchReport) { r.Comparison = nil })
		s := admin.Status{Node: admin.NodeStatus{DataDir: t.TempDir()}, Durability: admin.Durability{Mode: c.durability}}
		if err := b.compare(context.Background(), s, &report); err != nil || report.ComparisonSkipped != c.want || report.Comparison != nil {
			t.Errorf("%s: got %v and %q, want %q", name, err, report.ComparisonSkipped, c.want)
		}
	}
}

func TestCompareRemovesOnlyWhatIsOld(t *testing.T) {
	dir := t.TempDir()
	old := time.Now().Add(-compareStale - time.Minute)
	for _, name := range []string{compareDirPrefix + "old", compareDirPrefix + "new", "creds"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(name, "new") {
			if err := os.Chtimes(filepath.Join(dir, name), old, old); err != nil {
				t.Fatal(err)
			}
		}
	}
	removeStale(dir)
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(left) != 2 || exists(filepath.Join(dir, compareDirPrefix+"old")) {
		t.Errorf("got %q, %v, want the new one and that of somebody else", left, err)
	}
}
