// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mq/holdfast/cmd/bench/load"
)

func TestUsageForThreeNodesIsRefused(t *testing.T) {
	for _, args := range [][]string{
		{"-times", "0"}, {"-pairs", "0"}, {"-fs", "btrfs"}, {"-parts", "("}, {"-size", "10"}, {"more"},
	} {
		var out bytes.Buffer
		if got := run(t.Context(), append([]string{clusterVerb}, args...), &out, &out); got != 2 {
			t.Errorf("%q: got exit code %d, want 2\n%s", args, got, &out)
		}
	}
}

func TestPageOfThreeNodesHasMediansAndWorstCases(t *testing.T) {
	samples := func(perSecond ...float64) (all []*queueSample) {
		for _, n := range perSecond {
			all = append(all, &queueSample{Result: load.Result{PerSecond: n, P50: time.Millisecond, P99: 2 * time.Millisecond}})
		}
		return all
	}
	p := &clusterPage{
		Versions: []string{"RabbitMQ 1"}, Seed: 7,
		Gaps: []*gap{{Fault: killed, Side: ours, Took: []float64{5, 3, 4}}, {Fault: killed, Side: stock, Took: []float64{6, 8, 7}}, {Fault: cutOff, Side: ours}, {Fault: cutOff, Side: stock}},
		Rates: []*queueResult{{
			Bytes: 256, Cell: "sync-64", cell: cell{what: "64 synchronous publishers"},
			Samples: map[string][]*queueSample{ours: samples(30, 30, 30, 30, 30, 30), stock: samples(20, 10, 15, 15, 15, 15), rabbitPeer: samples(10, 10, 10, 10, 10, 10)},
		}},
		peers: []queuePeer{{name: ours, label: "Holdfast"}, {name: stock, label: "stock strict"}},
	}
	text := p.markdown()
	for _, want := range []string{
		"RabbitMQ 1 · seed 7",
		"| its leader is killed (kill -9) | 4.00 s (5.00 s) | 7.00 s (8.00 s) | 3 |",
		"| its leader is cut off (cable pulled) | – | – | 0 |",
		"| 64 synchronous publishers | 2.00 (≥ 1.50) | – | – | 3.00 (≥ 3.00) | 6 |",
		"| 64 synchronous publishers | 30, 1.00 / 2.00 | 15, 1.00 / 2.00 |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("got no %q in\n%s", want, text)
		}
	}
}

// What was not measured has no heading.
func TestPageOfThreeNodesLeavesOutWhatWasNotMeasured(t *testing.T) {
	if text := (&clusterPage{}).markdown(); strings.Contains(text, "##") {
		t.Errorf("got a heading in\n%s", text)
	}
}
