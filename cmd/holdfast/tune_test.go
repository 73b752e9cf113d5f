// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"path/filepath"
	"testing"

	"github.com/holdfast-mq/holdfast/appliance/tune"
)

func TestTuneText(t *testing.T) {
	busy := tune.Comparison{Figure: "flush while others write, mean", Unit: "s", Before: 0.0021, After: 0.0012, Ratio: 0.57, Low: 0.5, High: 0.66, Pairs: 12, Verdict: tune.Helps}
	tail := tune.Comparison{Figure: "flush while others write, p99", Unit: "s", Before: 0.011, After: 0.01, Ratio: 0.91, Low: 0.7, High: 1.2, Pairs: 12, Verdict: tune.Nothing}
	scan := tune.Comparison{Figure: "reading blocks", Unit: "B/s", More: true, Before: 1 << 30, After: 1 << 30, Ratio: 1, Low: 0.98, High: 1.02, Pairs: 12, Verdict: tune.Nothing}
	better := tune.Result{Name: "scheduler", Target: "nvme0n1", From: "mq-deadline", To: "none", Verdict: tune.Helps, Figures: []tune.Comparison{busy, tail, scan}}
	same := tune.Result{Name: "read-ahead", Target: "nvme0n1", From: "128", To: "1024", Verdict: tune.Nothing, Figures: []tune.Comparison{scan}}
	report := tune.Report{Dir: "/var/lib/holdfast", Mount: "/", FSType: "ext4", Disks: []string{"nvme0n1"}, AtBoot: []string{"swappiness"}, Settings: []tune.Setting{
		{Name: "scheduler", Target: "nvme0n1", State: tune.Change, Now: "mq-deadline", Wanted: "none", Why: "W.", Known: "K.", Here: []tune.Result{better}, Command: "echo none > /sys/block/nvme0n1/queue/scheduler"},
		{Name: "read-ahead", Target: "nvme0n1", State: tune.Fine, Now: "128", Why: "W.", Known: "K.", Here: []tune.Result{same}, Note: "nothing was measured here to be better"},
		{Name: "scheduler", Target: "sda", State: tune.Unmeasured, Now: "mq-deadline", Why: "W.", Known: "K.", Note: "N.", Here: []tune.Result{{Name: "scheduler", Target: "sda", From: "mq-deadline", To: "none", Verdict: tune.Unclear}}},
		{Name: "swappiness", State: tune.Set, Now: "10", Wanted: "10", Why: "W.", Known: "K.", Note: "it was 60", Command: "echo 10 > /proc/sys/vm/swappiness"},
		{Name: "barrier", Target: "/", State: tune.Fine, Now: "on", Wanted: "on", Why: "W.", Known: "K."},
	}}
	var got bytes.Buffer
	printTune(&got, report, "sudo holdfast tune --apply")
	goldenFile(t, filepath.Join("testdata", "tune", "report.txt"), got.String())

	got.Reset()
	printTuned(&got, tune.Outcome{Changed: []tune.Changed{
		{Name: "scheduler", Target: "nvme0n1", From: "none", To: "mq-deadline"},
		{Name: "swappiness", From: "30", Left: "somebody has changed it since: tune had set it to 10, and it was 60"},
	}}, []string{"no longer at boot"}, true)
	printTuned(&got, tune.Outcome{}, nil, true)
	printMeasured(&got, []tune.Result{better, same}, 12, 1e9)
	printMeasured(&got, nil, 12, 1e9)
	goldenFile(t, filepath.Join("testdata", "tune", "outcome.txt"), got.String())
}
