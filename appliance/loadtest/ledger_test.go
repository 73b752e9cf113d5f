// SPDX-License-Identifier: Apache-2.0

package loadtest

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

func TestJudgeFindsEachDifference(t *testing.T) {
	three := []receipt{{3, 30}, {1, 10}, {2, 20}}
	for name, c := range map[string]struct {
		acknowledged, delivered []receipt
		want                    Counts
	}{
		"nothing":                   {},
		"all":                       {three, []receipt{{2, 20}, {3, 30}, {1, 10}}, Counts{Acknowledged: 3, Consumed: 3}},
		"delivered again":           {three, []receipt{{2, 20}, {3, 30}, {1, 10}, {1, 10}}, Counts{Acknowledged: 3, Consumed: 3, Redelivered: 1}},
		"first lost":                {three, []receipt{{2, 20}, {3, 30}}, Counts{Acknowledged: 3, Consumed: 2, Lost: 1}},
		"last lost":                 {three, []receipt{{1, 10}, {2, 20}}, Counts{Acknowledged: 3, Consumed: 2, Lost: 1}},
		"unknown first":             {three[:1], []receipt{{1, 10}, {3, 30}}, Counts{Acknowledged: 1, Consumed: 2, Unknown: 1}},
		"unknown last":              {three[1:], []receipt{{1, 10}, {2, 20}, {3, 30}}, Counts{Acknowledged: 2, Consumed: 3, Unknown: 1}},
		"another one":               {three, []receipt{{1, 10}, {2, 20}, {3, 31}}, Counts{Acknowledged: 3, Consumed: 3, Changed: 1}},
		"one sequence for two":      {[]receipt{{1, 10}, {1, 11}}, []receipt{{1, 10}, {2, 11}}, Counts{Acknowledged: 2, Consumed: 2, Unknown: 1, Changed: 1}},
		"two sequences in exchange": {[]receipt{{1, 10}, {2, 20}}, []receipt{{1, 20}, {2, 10}}, Counts{Acknowledged: 2, Consumed: 2, Changed: 2}},
	} {
		l := ledger{acknowledged: append([]receipt(nil), c.acknowledged...), delivered: append([]receipt(nil), c.delivered...)}
		got := l.judge()
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: got other counts (-want +got):\n%s", name, diff)
		}
		got.Stored = got.Acknowledged
		wrong := got.Lost+got.Unknown+got.Changed > 0
		if err := got.err(false); (diag.CodeOf(err) == diag.CodeMiscount) != wrong {
			t.Errorf("%s: got %v, want an error: %v", name, err, wrong)
		}
		got.Stored++
		if err := got.err(true); diag.CodeOf(err) != diag.CodeMiscount {
			t.Errorf("%s: got %v with one more stored than acknowledged, want an error", name, err)
		}
	}
}

func TestLatencyIsOneThatWasMeasured(t *testing.T) {
	var hundred []time.Duration
	for i := range 100 {
		hundred = append(hundred, time.Duration(100-i))
	}
	for name, c := range map[string]struct {
		all  []time.Duration
		want *Latency
	}{
		"none":    {},
		"one":     {[]time.Duration{7}, &Latency{7, 7, 7}},
		"two":     {[]time.Duration{9, 7}, &Latency{7, 9, 9}},
		"hundred": {hundred, &Latency{50, 99, 100}},
	} {
		if diff := cmp.Diff(c.want, latencyOf(c.all)); diff != "" {
			t.Errorf("%s: got another latency (-want +got):\n%s", name, diff)
		}
	}
}

// TestLeftOverIsOnlyWhatARunMadeLongAgo keeps streams of others, and those of a run
// that still works, from being removed.
func TestLeftOverIsOnlyWhatARunMadeLongAgo(t *testing.T) {
	now := time.Date(1970, 1, 1, 1, 0, 0, 0, time.UTC) // a node without a clock
	for name, c := range map[string]struct {
		stream string
		mark   bool
		age    time.Duration
		want   bool
	}{
		"old":             {StreamPrefix + "x", true, 11 * time.Minute, true},
		"may be in use":   {StreamPrefix + "x", true, Longest + time.Minute, false},
		"of that name":    {StreamPrefix + "x", false, time.Hour, false},
		"of another name": {"ORDERS", true, time.Hour, false},
	} {
		info := &jetstream.StreamInfo{Config: jetstream.StreamConfig{Name: c.stream}, Created: now.Add(-c.age), TimeStamp: now}
		if c.mark {
			info.Config.Metadata = map[string]string{mark: "scratch"}
		}
		if got := leftOver(info); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}
