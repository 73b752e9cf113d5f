// SPDX-License-Identifier: Apache-2.0

//go:build process && linux

package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-mq/holdfast/appliance/admin"
	"github.com/holdfast-mq/holdfast/appliance/porttest"
)

// growing is three nodes that are not started: the first has a fixed port for clients, for
// it is opened anew in between, and a file without the block cluster, which with adds.
type growing struct {
	nodes  []*node
	single string
	with   string
	url    string
}

func newGrowing(t *testing.T) growing {
	t.Helper()
	nodes := newCluster(t, shop)
	text, err := os.ReadFile(nodes[0].file())
	if err != nil {
		t.Fatal(err)
	}
	client := fmt.Sprintf("127.0.0.1:%d", porttest.Free(t, 1))
	with := strings.Replace(string(text), `client: "127.0.0.1:0"`, `client: "`+client+`"`, 1)
	if with == string(text) {
		t.Fatalf("got %q, want a port for clients in it", text)
	}
	single, _, found := strings.Cut(with, "\ncluster: {")
	if !found {
		t.Fatal("got no block cluster")
	}
	g := growing{nodes: nodes, single: single + "\n", with: with, url: "nats://" + client}
	nodes[0].configure(g.single)
	return g
}

// grower publishes to orders.grow until it is stopped, each message until it is
// acknowledged.
type grower struct {
	stop  context.CancelFunc
	done  sync.WaitGroup
	acked map[uint64]string // by sequence
	seen  map[uint64]bool   // sequences of EVENTS that were acknowledged
	pause time.Duration     // the longest between two acknowledgements
}

func startGrower(t *testing.T, url, creds string) *grower {
	t.Helper()
	nc, err := nats.Connect(url, nats.UserCredentials(creds), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond), nats.RetryOnFailedConnect(true))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	p := &grower{stop: stop, acked: map[uint64]string{}, seen: map[uint64]bool{}}
	p.done.Go(func() { p.work(ctx, js) })
	p.done.Go(func() {
		last := time.Now()
		tick := time.NewTicker(10 * time.Millisecond) // each is read back one by one
		defer tick.Stop()
		for i := 0; ctx.Err() == nil; i++ {
			<-tick.C
			text := "grow " + strconv.Itoa(i)
			for ctx.Err() == nil {
				ack, err := js.Publish(ctx, "orders.grow", []byte(text), jetstream.WithMsgID(text))
				if err != nil {
					continue
				}
				p.acked[ack.Sequence] = text
				p.pause = max(p.pause, time.Since(last))
				last = time.Now()
				break
			}
			if ack, err := js.Publish(ctx, "events.grow", []byte(text), jetstream.WithMsgID(text)); err == nil {
				p.seen[ack.Sequence] = true
			}
		}
	})
	return p
}

// work acknowledges what one of the two consumers of EVENTS gets; the other one's nobody
// reads.
func (p *grower) work(ctx context.Context, js jetstream.JetStream) {
	for ctx.Err() == nil {
		c, err := js.Consumer(ctx, "EVENTS", "quick")
		if err != nil {
			continue
		}
		b, err := c.Fetch(20, jetstream.FetchMaxWait(200*time.Millisecond))
		if err != nil {
			continue
		}
		for m := range b.Messages() {
			_ = m.Ack() // one that is lost is delivered again
		}
	}
}

func (p *grower) end() {
	p.stop()
	p.done.Wait()
}

func credentials(t *testing.T, n *node) string {
	t.Helper()
	data, err := os.ReadFile(n.credsFile("admin"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "old.creds")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// earlier is what a single node had before it grew.
type earlier struct {
	orders, jobs *jetstream.StreamInfo
	worker       *jetstream.ConsumerInfo
	revoked      string
}

// fillSingle gives the first node all kinds of things to lose.
func (g growing) fillSingle(t *testing.T) earlier {
	t.Helper()
	n := g.nodes[0].start()
	var f earlier
	f.revoked = credentials(t, n)
	if code, out := n.holdfast("creds", "rotate", "--yes", "--config", "holdfast.yaml", "shop/admin"); code != exitOK {
		t.Fatalf("got exit code %d and %q", code, out)
	}
	js := n.jetStream()
	for i := range 300 {
		publish(t, js, "orders.a", fmt.Sprint("before ", i))
		publish(t, js, "jobs.a", fmt.Sprint("job ", i))
	}
	orders, err := js.Stream(t.Context(), "ORDERS")
	if err != nil {
		t.Fatal(err)
	}
	for _, seq := range []uint64{1, 7, 300} { // gaps, at both ends too
		if err := orders.DeleteMsg(t.Context(), seq); err != nil {
			t.Fatal(err)
		}
	}
	worker, err := js.Consumer(t.Context(), "JOBS", "worker")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 60 {
		m := next(t, worker)
		if i%6 == 5 {
			continue // it is delivered again
		}
		if err := m.DoubleAck(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	events := jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"events.>"}, Retention: jetstream.InterestPolicy, Duplicates: 10 * time.Minute}
	if _, err := js.CreateStream(t.Context(), events); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"quick", "slow"} {
		if _, err := js.CreateConsumer(t.Context(), "EVENTS", jetstream.ConsumerConfig{Durable: name, AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Second}); err != nil {
			t.Fatal(err)
		}
	}
	// Made by hand, and not in the file.
	kv, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "settings", History: 3})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		if _, err := kv.PutString(t.Context(), "colour", fmt.Sprint("shade ", i)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "COPY", Mirror: &jetstream.StreamSource{Name: "ORDERS"}}); err != nil {
		t.Fatal(err)
	}
	if f.orders, err = orders.Info(t.Context()); err != nil {
		t.Fatal(err)
	}
	jobs, err := js.Stream(t.Context(), "JOBS")
	if err != nil {
		t.Fatal(err)
	}
	f.jobs = jobs.CachedInfo()
	if f.worker, err = worker.Info(t.Context()); err != nil {
		t.Fatal(err)
	}
	return f
}

// check finds on a node everything that was there before, and what was acknowledged since.
func (f earlier) check(t *testing.T, n *node, acked map[uint64]string) {
	t.Helper()
	js := n.jetStream()
	ctx := t.Context()
	orders, err := js.Stream(ctx, "ORDERS")
	if err != nil {
		t.Fatal(err)
	}
	want := map[uint64]string{}
	for i := range 300 {
		want[uint64(i+1)] = fmt.Sprint("before ", i)
	}
	for _, gone := range []uint64{1, 7, 300} {
		delete(want, gone)
	}
	maps.Copy(want, acked)
	eventually(t, 2*patience, func() error { // a mirror finds its source again after some seconds
		s, err := js.Stream(ctx, "COPY")
		if err != nil {
			return err
		}
		if got := s.CachedInfo().State.LastSeq; got < orders.CachedInfo().State.LastSeq {
			return fmt.Errorf("got %d in the mirror, want %d", got, orders.CachedInfo().State.LastSeq)
		}
		return nil
	})
	for _, stream := range []string{"ORDERS", "COPY"} {
		s, err := js.Stream(ctx, stream)
		if err != nil {
			t.Fatal(err)
		}
		missing := 0
		for seq, text := range want {
			m, err := s.GetMsg(ctx, seq)
			if err != nil || string(m.Data) != text {
				if missing++; missing < 4 {
					t.Errorf("%s of %s, sequence %d: got %v and %v, want %q", n.home, stream, seq, m, err, text)
				}
			}
		}
		if info, err := s.Info(ctx); err != nil || info.Config.Replicas != 3 || info.Config.Placement != nil {
			t.Errorf("stream %s: got %+v and %v, want three copies anywhere", stream, info, err)
		}
	}
	if info := orders.CachedInfo(); info.State.FirstSeq != f.orders.State.FirstSeq {
		t.Errorf("got first sequence %d, want %d", info.State.FirstSeq, f.orders.State.FirstSeq)
	}
	jobs, err := js.Stream(ctx, "JOBS")
	if err != nil {
		t.Fatal(err)
	}
	if got := jobs.CachedInfo().State; got.Msgs != f.jobs.State.Msgs || got.LastSeq != f.jobs.State.LastSeq {
		t.Errorf("got %+v, want %+v", got, f.jobs.State)
	}
	worker, err := js.Consumer(ctx, "JOBS", "worker")
	if err != nil {
		t.Fatal(err)
	}
	if got := worker.CachedInfo(); got.AckFloor.Stream != f.worker.AckFloor.Stream || got.Delivered.Stream != f.worker.Delivered.Stream || got.NumPending != f.worker.NumPending {
		t.Errorf("got %+v, want %+v", got, f.worker)
	}
	kv, err := js.KeyValue(ctx, "settings")
	if err != nil {
		t.Fatal(err)
	}
	if history, err := kv.History(ctx, "colour"); err != nil || len(history) != 3 || string(history[2].Value()) != "shade 4" {
		t.Errorf("got %v and %v, want three shades", history, err)
	}
	if nc, err := nats.Connect("nats://"+n.address("client"), nats.UserCredentials(f.revoked), nats.NoReconnect()); err == nil {
		nc.Close()
		t.Error("got in with credentials that were rotated away, want a refusal")
	}
}

// grown waits until the cluster has its copies.
func grown(t *testing.T, nodes []*node) {
	t.Helper()
	waitAllReady(t, nodes...)
	eventually(t, 4*patience, func() error {
		s, err := nodes[0].status()
		if err != nil {
			return err
		}
		if s.Cluster == nil || s.Cluster.Growth != nil {
			return fmt.Errorf("got %+v, want the growth to have ended", s.Cluster)
		}
		return nil
	})
}

// TestProcessGrowthIsCarriedOnAfterAKill kills the node with the messages after each step
// of the way, while somebody publishes.
func TestProcessGrowthIsCarriedOnAfterAKill(t *testing.T) {
	t.Parallel()
	g := newGrowing(t)
	before := g.fillSingle(t)
	g.nodes[0].stop()
	g.nodes[0].configure(g.with)
	p := startGrower(t, g.url, g.nodes[0].credsFile("admin"))
	g.nodes[1].launch()
	g.nodes[2].launch()
	entered := func() bool {
		found, err := filepath.Glob(filepath.Join(g.nodes[0].data, "jetstream", "*", "_js_", "_meta_"))
		return err == nil && len(found) > 0
	}
	kills, inside := 0, false
	g.nodes[0].bin = testProgram(t) // with the hook, which the real one does not have
	for last := 1; ; last++ {
		if !inside && entered() {
			inside, last = true, 1
		}
		g.nodes[0].env = []string{fmt.Sprintf("%s=%d", killAfterStep, last)}
		g.nodes[0].launch()
		if g.killedOrGrown(t) {
			break
		}
		kills++
	}
	p.end()
	t.Logf("%d kills, %d acknowledged", kills, len(p.acked))
	if kills < 12 || len(p.acked) == 0 {
		t.Errorf("got %d kills and %d acknowledgements, want some of each", kills, len(p.acked))
	}
	waitAllReady(t, g.nodes...)
	for _, n := range g.nodes {
		before.check(t, n, p.acked)
		p.checkEvents(t, n)
	}
}

// killedOrGrown waits until the first node has ended, or the cluster has its copies.
func (g growing) killedOrGrown(t *testing.T) (done bool) {
	t.Helper()
	eventually(t, 4*patience, func() error {
		select {
		case <-g.nodes[0].exited:
			return nil
		default:
		}
		s, err := g.nodes[0].status()
		if err == nil && s.Ready && s.Cluster != nil && s.Cluster.Growth == nil {
			done = true
			return nil
		}
		return errors.New("not yet")
	})
	return done
}

// TestProcessSingleNodeGrowsIntoACluster takes a node with messages into a cluster of
// three, while somebody publishes.
func TestProcessSingleNodeGrowsIntoACluster(t *testing.T) {
	t.Parallel()
	g := newGrowing(t)
	before := g.fillSingle(t)
	operator := identityOf(t, g.nodes[0])
	g.nodes[0].stop()
	g.nodes[0].configure(g.with)
	g.nodes[0].start()
	p := startGrower(t, g.url, g.nodes[0].credsFile("admin"))
	// It goes on as a single node, and says for whom it waits.
	s := g.nodes[0].waitStatus("waiting for the others", func(s admin.Status) bool {
		return s.Cluster != nil && s.Cluster.Growth != nil && strings.Contains(s.Cluster.Growth.Problem, "waiting for the other nodes")
	})
	if !s.Ready || s.Cluster.Growth.Step != admin.GrowWaits {
		t.Errorf("got %v and %+v, want a node that serves and waits", s.Missing, s.Cluster.Growth)
	}
	g.nodes[1].launch()
	g.nodes[2].launch()
	watching, unwatch := context.WithCancel(t.Context())
	defer unwatch()
	seen := make(chan []admin.Growth, 1)
	go func() { seen <- watchGrowth(watching, g.nodes[0]) }()
	grown(t, g.nodes)
	unwatch()
	checkProgress(t, <-seen)
	p.end()
	if len(p.acked) == 0 {
		t.Fatal("got no acknowledgement, want some")
	}
	t.Logf("%d acknowledged, the longest pause %v", len(p.acked), p.pause)
	for _, n := range g.nodes {
		if identityOf(t, n) != operator {
			t.Error("got another operator, want that of before")
		}
		before.check(t, n, p.acked)
		p.checkEvents(t, n)
		n.waitCluster()
	}
	for _, name := range []string{"growing", "before-cluster"} {
		if _, err := os.Stat(filepath.Join(g.nodes[0].data, name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("got %v for %s, want it removed", err, name)
		}
	}
	// Any node may be lost now, the one with the messages too.
	g.nodes[0].kill9()
	eventually(t, patience, func() error {
		_, err := g.nodes[1].jetStream().Publish(t.Context(), "orders.a", []byte("after"))
		return err
	})
	before.check(t, g.nodes[2], p.acked)
}

// watchGrowth is what a node says of how far it is, without repetitions.
func watchGrowth(ctx context.Context, n *node) (out []admin.Growth) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return out
		case <-tick.C:
		}
		s, err := n.status() // which fails while it is opened anew
		if err != nil || s.Cluster == nil || s.Cluster.Growth == nil {
			continue
		}
		if g := *s.Cluster.Growth; len(out) == 0 || out[len(out)-1] != g {
			out = append(out, g)
		}
	}
}

// checkProgress finds the bar of a node that has entered the cluster moving to its end,
// with a total that stays.
func checkProgress(t *testing.T, seen []admin.Growth) {
	t.Helper()
	var first, last admin.Growth
	for _, g := range seen {
		text := growthText(g)
		if text == "" || strings.Contains(text, "HOLDFAST") {
			t.Errorf("got %q for %+v, want what people wait for", text, g)
		}
		switch g.Step {
		case admin.GrowSettles, admin.GrowCopies, admin.GrowConsumers, admin.GrowOpens:
		default:
			continue
		}
		if first.Step == "" {
			first, last = g, g
		}
		done, total := g.Work()
		before, all := last.Work()
		if done < before || total != all || strings.Count(text, "#") < strings.Count(growthText(last), "#") {
			t.Errorf("got %q after %q, want it to move on", text, growthText(last))
		}
		last = g
	}
	if done, total := last.Work(); last.Step != admin.GrowOpens || done != total || first.Streams != 5 || first.Consumers == 0 {
		t.Errorf("got %+v first and %+v last, want everything done", first, last)
	}
	t.Logf("%d looks, the last %q", len(seen), growthText(last))
}

// checkEvents finds what one of two consumers has not had, though the other has.
func (p *grower) checkEvents(t *testing.T, n *node) {
	t.Helper()
	s, err := n.jetStream().Stream(t.Context(), "EVENTS")
	if err != nil {
		t.Fatal(err)
	}
	missing := 0
	for seq := range p.seen {
		if _, err := s.GetMsg(t.Context(), seq); err != nil {
			if missing++; missing < 4 {
				t.Errorf("EVENTS of %s, sequence %d: got %v, want it until the slow consumer had it", n.home, seq, err)
			}
		}
	}
	// Reading asks the node that leads; each has to have all.
	eventually(t, patience, func() error {
		c, err := n.copyOf("EVENTS")
		if err == nil && (c.Messages == 0 || c.Messages != c.Last) {
			err = fmt.Errorf("got %+v of EVENTS on %s, want everything from the first", c, n.home)
		}
		return err
	})
	if missing > 0 || len(p.seen) == 0 {
		t.Errorf("got %d of %d events removed that a consumer has not had", missing, len(p.seen))
	}
}
