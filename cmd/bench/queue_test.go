// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-mq/holdfast/cmd/bench/load"
)

// TestMain makes this binary the load generator that it starts.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == loadVerb {
		os.Exit(run(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

func TestQueueUsageIsRefused(t *testing.T) {
	for _, args := range [][]string{
		{"-fs", "btrfs"}, {"-bytes", "7"}, {"-bytes", "many"}, {"-cells", "("}, {"-peers", "("}, {"-pairs", "0"}, {"-size", "1"}, {"-take", "0s"}, {"more"},
	} {
		var stderr bytes.Buffer
		if got := run(t.Context(), append([]string{queueVerb}, args...), &stderr, &stderr); got != 2 {
			t.Errorf("%q: got exit code %d, want 2\n%s", args, got, &stderr)
		}
	}
}

func TestPeersFromElsewhereTakeTheLoad(t *testing.T) {
	l := &lab{dir: t.TempDir(), env: os.Environ()}
	for _, p := range []struct {
		queuePeer
		missing bool
	}{
		{queuePeer{redisPeer, "", l.redisQueue}, noCommand("redis-server")},
		{queuePeer{rabbitPeer, "", l.rabbitQueue}, rabbitVersion() == ""},
	} {
		t.Run(p.name, func(t *testing.T) {
			if p.missing {
				t.Skipf("skipping: no %s (`make bench-peers` installs it)", p.name)
			}
			q := &queueRun{lab: l, o: queueOptions{warm: 100 * time.Millisecond, take: 300 * time.Millisecond}}
			// All in one: a RabbitMQ takes seconds to start.
			c := cell{publishers: 2, window: 16, workers: 4}
			got, err := q.measurePeer(t.Context(), &queueResult{Bytes: 256, cell: c, place: place{dir: t.TempDir()}}, p.queuePeer)
			if err != nil {
				t.Fatal(err)
			}
			if got.PerSecond <= 0 || got.P50 <= 0 || got.P99 < got.P50 || got.P99 > time.Minute {
				t.Errorf("got %+v, want a rate and latencies that can be", got)
			}
		})
	}
}

func noCommand(name string) bool {
	_, err := exec.LookPath(name)
	return err != nil
}

// broken is a run whose servers can't be made.
func broken(cells, peers string, pairs int) (*queueRun, *bytes.Buffer) {
	var out bytes.Buffer
	q := &queueRun{
		lab: &lab{}, out: &out, rng: rand.New(rand.NewPCG(1, 0)), now: time.Now, places: []place{{kind: "ext4", dir: os.TempDir()}},
		o: queueOptions{options: options{pairs: pairs, within: time.Hour}, cells: regexp.MustCompile(cells), bytes: []int{256, 4096}},
	}
	for p := range strings.SplitSeq(peers, " ") {
		q.peers = append(q.peers, queuePeer{p, p, func(string, cell) (queueNode, error) { return queueNode{}, errors.New("out of order") }})
	}
	return q, &out
}

func TestFailedMeasurementIsToldAndLeftOut(t *testing.T) {
	q, out := broken("^sync-1$", "holdfast stock", 3)
	err := q.measureAll(t.Context())
	if err == nil || !strings.Contains(err.Error(), "12 measurements failed") {
		t.Errorf("got %v, want all failures counted", err)
	}
	if want := "pair 2 of 3, cell 1 of 2: ext4 256 B sync-1: stock: out of order\n"; !strings.Contains(out.String(), want) {
		t.Errorf("got\n%swant the line %q", out, want)
	}
	if got := q.results[0].compare(ours, stock, perSecond).String(); got != "–" {
		t.Errorf("ratio: got %q, want none", got)
	}
}

func TestTimeThatRunsOutEndsBeforeTheNextCell(t *testing.T) {
	q, out := broken("^sync-(1|2)$", "holdfast stock", 3)
	clock := time.Now()
	q.now = func() time.Time { clock = clock.Add(time.Minute); return clock }
	q.o.within = 6 * time.Minute
	_ = q.measureAll(t.Context()) // the failures are the other test's
	var got []int
	for _, r := range q.results {
		got = append(got, len(r.Samples[ours]))
	}
	// All cells once before any is measured a second time.
	if diff := cmp.Diff([]int{2, 2, 1, 1}, got); diff != "" {
		t.Errorf("pairs of each cell (-want +got):\n%s\n%s", diff, out)
	}
}

func TestMemoryIsMeasuredOnceAndBesideStockOnly(t *testing.T) {
	q, out := broken("^memory$", "holdfast stock redis", 1)
	_ = q.measureAll(t.Context()) // the failures are the other test's
	if got := strings.Count(out.String(), "out of order"); got != 2 {
		t.Errorf("got %d measurements, want 2:\n%s", got, out)
	}
}

func someResults() []*queueResult {
	at := func(perSecond float64) *queueSample {
		return &queueSample{Result: load.Result{PerSecond: perSecond, P50: 1500 * time.Microsecond, P99: 20 * time.Millisecond}}
	}
	speed := &queueResult{FileSystem: "xfs", Bytes: 4096, Cell: "sync-64", cell: cell{what: "64 synchronous publishers"}, Samples: map[string][]*queueSample{
		ours:      {at(600), at(700), at(800), at(900), at(1000), at(1100), at(9000)},
		stock:     {at(100), at(100), at(100), at(100), at(100), at(100), nil},
		redisPeer: {at(300), nil, nil, nil, nil, nil, nil},
	}}
	memory := &queueResult{FileSystem: "xfs", Bytes: 4096, Cell: "memory", cell: cell{what: "much", memory: true}, Samples: map[string][]*queueSample{
		ours: {{Idle: 40 << 20, Peak: 60 << 20, After: 50 << 20}}, stock: {{Idle: 20 << 20, Peak: 30 << 20, After: 25 << 20}},
	}}
	return []*queueResult{speed, memory}
}

func TestQueuePageHoldsRatiosBoundsAndContext(t *testing.T) {
	env, _ := someRows()
	head := queueHead{environment: env, Peers: []string{"Redis 7.0.15"}, Seed: 7, Warm: 0.3, Take: 1.5}
	got := queueMarkdown(head, []queuePeer{{name: ours, label: "Holdfast"}, {name: stock, label: "stock strict"}, {name: redisPeer, label: "Redis"}}, someResults())
	// Six pairs have both sides. The lower end is the smallest of six ratios.
	const want = "<!-- Made by `make bench`; README.md beside it says how to read it. -->\n" + `
holdfast 1.0.0 · nats-server 2.15.3 · go1.26.8 · linux/amd64 · 2 cores · ext4 · Redis 7.0.15 · 1.5 s after 0.3 s of warm-up · seed 7

## xfs, messages of 4 KiB

| Holdfast | ÷ stock strict | ÷ stock without fsync | ÷ RabbitMQ | ÷ Redis | interval ÷ stock interval | Pairs |
|---|---|---|---|---|---|---|
| 64 synchronous publishers | 8.50 (≥ 6.00) | – | – | 2.00 | – | 6 |

Medians, as context: messages per second, p50 / p99 in milliseconds.

| | Holdfast | stock strict | Redis |
|---|---|---|---|
| 64 synchronous publishers | 900, 1.50 / 20.0 | 100, 1.50 / 20.0 | 300, 1.50 / 20.0 |

Memory (RSS) of the server: much.

| Measured | Holdfast | Beside it | Ratio (min–max) | Pairs |
|---|---|---|---|---|
| idle, before | 40.0 MiB | stock strict 20.0 MiB | 2.00 (2.00–2.00) | 1 |
| most under load | 60.0 MiB | stock strict 30.0 MiB | 2.00 (2.00–2.00) | 1 |
| idle, after | 50.0 MiB | stock strict 25.0 MiB | 2.00 (2.00–2.00) | 1 |
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("page (-want +got):\n%s", diff)
	}
}
