// SPDX-License-Identifier: Apache-2.0

//go:build process && linux

package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// crashFor is when the last kill is, without TEST_FOR.
	crashFor = 16 * time.Second
	// crashesPerNode is how often one node is killed before the next one begins: what a
	// node holds is read again after each kill.
	crashesPerNode = 8
	// crashPatience is for the deliveries that a kill put off by ack_wait.
	crashPatience = 60 * time.Second
)

// TestProcessGroupCommitKeepsItsWordThroughKills kills a node under 48 publishers and
// 16 workers, again and again, while its streams are changed: what was acknowledged is
// there, once, and nothing runs backwards. Every second node is encrypted.
func TestProcessGroupCommitKeepsItsWordThroughKills(t *testing.T) {
	limit := crashFor
	if d, err := time.ParseDuration(os.Getenv(forEnv)); err == nil {
		limit = d
	}
	first := uint64(1)
	if limit != crashFor {
		first = uint64(time.Now().UnixNano() % 1e9)
	}
	if n, err := strconv.ParseUint(os.Getenv(seedEnv), 10, 64); err == nil {
		first = n
	}
	end := time.Now().Add(limit)
	for n := first; n == first || time.Now().Before(end); n++ {
		t.Run(strconv.FormatUint(n, 10), func(t *testing.T) {
			t.Logf("repeat with %s=%d", seedEnv, n)
			newCrash(t, n).run(end)
		})
		if t.Failed() {
			return
		}
	}
}

// crash is one node on its way through kills.
type crash struct {
	*node
	rng     *rand.Rand
	head    string // of each configuration
	book    *crashBook
	pubs    []*crashPublisher
	kills   int
	applied int
	lost    int // times that the memory was emptied as a reboot does
}

func newCrash(t *testing.T, seed uint64) *crash {
	c := &crash{rng: rand.New(rand.NewPCG(seed, 0xc4a54)), head: listening, book: newCrashBook(), pubs: crashPublishers()}
	if seed%2 == 0 {
		c.head = strings.Replace(listening, "limit: 256MiB", `limit: 256MiB, encryption: {key: "file:store.key"}`, 1)
	}
	c.node = newNode(t, c.config())
	c.storeKey("store.key")
	return c
}

// config is one of many for the same streams. In the first, group commit is on; in later
// ones it comes and goes. Limits only grow, for less would need a permission.
func (c *crash) config() string {
	group := func() string {
		if c.book == nil || c.kills == 0 {
			return "on"
		}
		return []string{"on", "on", "off", "auto"}[c.rng.IntN(4)]
	}
	return c.head + fmt.Sprintf(`accounts:
  shop:
    streams:
      ORDERS:
        subjects: ["orders.>"]
        max_bytes: %dMiB
        duplicate_window: %dm
        allow_direct: true
        group_commit: %q
        description: "edition %d"
        consumers:
          audit: {ack_wait: 1s, max_ack_pending: %d}
      JOBS:
        subjects: ["jobs.>"]
        retention: workqueue
        max_bytes: %dMiB
        duplicate_window: %dm
        allow_direct: true
        group_commit: %q
        consumers:
          worker: {ack_wait: 1s, max_ack_pending: %d}
`, 120+c.kills, 10+c.rng.IntN(20), group(), c.rng.IntN(1000), 5000+c.rng.IntN(1000),
		24+c.kills, 10+c.rng.IntN(20), group(), 500+c.rng.IntN(500))
}

func (c *crash) run(end time.Time) {
	for c.kills < crashesPerNode && (c.kills == 0 || time.Now().Before(end)) && !c.t.Failed() {
		c.start()
		c.judge()
		c.load()
		c.kills++
		if c.rng.IntN(3) == 0 {
			c.forgetMemory()
			c.lost++
		}
	}
	c.start()
	c.judge()
	c.drain()
	c.checkGrouped()
	c.stop()
	c.checkMemoryGivenBack()
	for line := range strings.Lines(c.log.String()) {
		if strings.Contains(line, "level=ERROR") {
			c.t.Errorf("got an error logged, want none for kills that lose nothing: %s", line)
		}
	}
	acked, batched, delivered, done := c.book.counts()
	c.t.Logf("%d kills, %d of them with the memory lost, %d changes applied: %d messages acknowledged, %d%% of them in batches; %d deliveries, %d acknowledged by workers; %d blocks begun by ORDERS, %d by JOBS",
		c.kills, c.lost, c.applied, acked, 100*batched/max(acked, 1), delivered, done, c.blocks("ORDERS"), c.blocks("JOBS"))
}

// load publishes, consumes and applies changes until the kill, which hits somewhere.
func (c *crash) load() {
	ctx, cancel := context.WithCancel(c.t.Context())
	var clients sync.WaitGroup
	sessions := make([]*crashSession, 8)
	for i := range sessions {
		sessions[i] = newCrashSession(c)
	}
	for i, p := range c.pubs {
		s := sessions[i%len(sessions)]
		clients.Go(func() { p.run(ctx, s, c.book) })
	}
	for i := range 16 {
		js, rng := sessions[i%len(sessions)].js, rand.New(rand.NewPCG(c.rng.Uint64(), 1))
		clients.Go(func() { c.book.work(ctx, js, "JOBS", "worker", rng) })
		if i < 2 {
			clients.Go(func() { c.book.work(ctx, js, "ORDERS", "audit", rng) })
		}
	}
	moment := time.Duration(500+c.rng.IntN(1200)) * time.Millisecond
	victim := c.cmd.Process
	timer := time.AfterFunc(moment, func() { _ = victim.Kill() })
	defer timer.Stop()
	before, _, _, _ := c.book.counts()
	c.change()
	select {
	case <-c.exited:
	case <-time.After(patience):
		c.t.Fatalf("got no end within %v of the kill", patience)
	}
	for _, s := range sessions {
		<-s.closed
	}
	cancel()
	clients.Wait()
	if after, _, _, _ := c.book.counts(); after == before {
		c.t.Errorf("kill %d after %v: got no message acknowledged, want some\n%s", c.kills+1, moment, c.log)
	}
}

// change applies other configurations for as long as the node lives. An apply that the
// kill interrupts is finished by the next start.
func (c *crash) change() {
	for {
		pause := time.NewTimer(time.Duration(c.rng.IntN(300)) * time.Millisecond)
		select {
		case <-c.exited:
			pause.Stop()
			return
		case <-pause.C:
		}
		c.configure(c.config())
		code, out := c.holdfast("apply", "--config", "holdfast.yaml", "--yes")
		select {
		case <-c.exited:
			return
		default:
		}
		if code == exitOK {
			c.applied++
		} else if !strings.Contains(out, "is not the one that was shown") { // the node has seen the file by itself
			c.t.Logf("apply under load: exit code %d: %s", code, out)
		}
	}
}

// blocks is how many blocks a stream has begun: they are numbered.
func (c *crash) blocks(stream string) int {
	last := 0
	files, err := filepath.Glob(filepath.Join(c.data, "jetstream", "*", "streams", stream, "msgs", "*.blk"))
	if err != nil {
		c.t.Fatal(err)
	}
	for _, f := range files {
		n, err := strconv.Atoi(strings.TrimSuffix(filepath.Base(f), ".blk"))
		if err != nil {
			c.t.Fatal(err)
		}
		last = max(last, n)
	}
	return last
}

func (c *crash) checkMemoryGivenBack() {
	for _, dir := range c.memory() {
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			c.t.Errorf("got %v for %s after a clean stop, want it given back", err, dir)
		}
	}
}

// checkGrouped: with group commit on again, batches happen again.
func (c *crash) checkGrouped() {
	c.configure(c.grouped())
	if code, out := c.holdfast("apply", "--config", "holdfast.yaml", "--yes"); code != exitOK {
		c.t.Errorf("apply: exit code %d: %s", code, out)
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	s := newCrashSession(c)
	var clients sync.WaitGroup
	_, before, _, _ := c.book.counts()
	for _, p := range c.pubs {
		clients.Go(func() { p.run(ctx, s, c.book) })
	}
	eventually(c.t, patience, func() error {
		c.book.read(c, s.js, "ORDERS")
		if _, after, _, _ := c.book.counts(); after == before {
			return fmt.Errorf("got no message in a batch, want group commit to work after %d kills", c.kills)
		}
		return nil
	})
	cancel()
	clients.Wait()
	c.judge()
}

func (c *crash) grouped() string {
	text := c.config()
	for _, mode := range []string{"off", "auto"} {
		text = strings.ReplaceAll(text, fmt.Sprintf("group_commit: %q", mode), `group_commit: "on"`)
	}
	return text
}

// drain lets workers empty the queue: what was acknowledged to a publisher was
// delivered to one of them then.
func (c *crash) drain() {
	ctx, cancel := context.WithCancel(c.t.Context())
	defer cancel()
	s := newCrashSession(c)
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() { c.book.work(ctx, s.js, "JOBS", "worker", nil) })
	}
	jobs := consumer(c.t, s.js, "JOBS", "worker")
	eventually(c.t, crashPatience, func() error { return nothingLeft(ctx, jobs) })
	cancel()
	workers.Wait()
	c.book.judgeDelivered(c)
}

func nothingLeft(ctx context.Context, jobs jetstream.Consumer) error {
	info, err := jobs.Info(ctx)
	if err == nil && (info.NumPending > 0 || info.NumAckPending > 0) {
		err = fmt.Errorf("got %d messages to deliver and %d to acknowledge, want none", info.NumPending, info.NumAckPending)
	}
	return err
}
