// SPDX-License-Identifier: Apache-2.0

//go:build process && linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/holdfast-mq/holdfast/appliance/admin"
	"github.com/holdfast-mq/holdfast/bootstrap"
)

const (
	// seedEnv repeats the choices of one run; forEnv runs longer than CI does.
	seedEnv = "TEST_SEED"
	forEnv  = "TEST_FOR"
	// propertyFor is when the last world begins.
	propertyFor = 15 * time.Second
	editions    = 3
)

// TestProcessRandomChangesEndAsTheFileSaysAndLoseNothing makes random worlds, changes
// them at random, applies, ends the process somewhere in it, starts, and applies
// again: then the server is as the file says, and what nobody allowed to be removed
// is there.
func TestProcessRandomChangesEndAsTheFileSaysAndLoseNothing(t *testing.T) {
	// The same worlds each time, so that a failure is of the change under test; new ones
	// for as long as somebody asks.
	first, end := uint64(1), time.Now().Add(propertyFor)
	if d, err := time.ParseDuration(os.Getenv(forEnv)); err == nil {
		first, end = uint64(time.Now().UnixNano()%1e9), time.Now().Add(d)
	}
	if n, err := strconv.ParseUint(os.Getenv(seedEnv), 10, 64); err == nil {
		randomly(t, n)
		return
	}
	for n := first; time.Now().Before(end); n++ {
		randomly(t, n)
	}
}

func randomly(t *testing.T, n uint64) {
	t.Run(strconv.FormatUint(n, 10), func(t *testing.T) {
		t.Logf("repeat with %s=%d", seedEnv, n)
		g := newGenerator(n)
		w := g.world()
		p := &property{t: t, g: g, node: newNode(t, w.text()), now: w, books: newLedger(), done: map[string]int{}}
		p.node.bin = testProgram(t)
		p.node.start()
		p.traffic(w, 1)()
		p.settle(w)
		for edition := range editions {
			next := g.edit(p.now, p.now)
			for range 2 + g.IntN(9) {
				next = g.edit(next, p.now)
			}
			p.edition(next)
			if t.Failed() {
				t.Fatalf("seed %d, edition %d, from\n%sto\n%s", n, edition+1, p.now.accounts(), next.accounts())
			}
			p.now = next
		}
		t.Logf("%d messages looked for, done: %v", p.books.looked, p.done)
	})
}

// property is one node on its way through worlds.
type property struct {
	t     *testing.T
	g     generator
	node  *node
	now   world
	books *ledger
	// allowed are the streams that a flag named in the present edition.
	allowed map[string]bool
	killed  bool
	done    map[string]int // actions by what they do
}

// edition moves the node from one world to the next, with an accident.
func (p *property) edition(next world) {
	p.allowed, p.killed = map[string]bool{}, false
	accident := pick(p.g, []string{"none", "step", "step", "moment", "moment"})
	if accident == "step" {
		p.node.kill9()
		p.start(1 + p.g.IntN(20))
	}
	base := p.look()
	p.books.begin()
	file := p.node.file()
	if p.g.chance(70) {
		file = p.node.candidate(next.text())
	} else {
		p.node.configure(next.text()) // it is also seen by itself, perhaps in between
	}
	everything := p.g.chance(75)
	moment := time.Duration(100+p.g.IntN(400)) * time.Millisecond
	wait := p.traffic(p.now, 0)
	if accident == "moment" {
		victim := p.node.cmd.Process
		at := time.AfterFunc(moment, func() { _ = victim.Kill() })
		defer at.Stop()
	}
	_, err := p.apply(file, everything)
	if accident == "none" && err != nil {
		p.t.Errorf("apply: %v", err)
	}
	if accident != "none" {
		p.node.kill9()
		p.killed = true
		p.done["kill "+accident]++
	}
	wait()
	p.node.configure(next.text())
	if accident != "none" {
		p.start(0)
	}
	p.settle(next)
	p.check(base, p.look(), next)
}

// start starts the node, which ends itself after a step of what it does; 0 for not.
// It need not be ready: what takes a permission first may be missing.
func (p *property) start(step int) {
	p.t.Helper()
	p.node.env = nil
	if step > 0 {
		p.node.env = []string{fmt.Sprintf("%s=%d", killAfterStep, step)}
	}
	p.node.launch()
	eventually(p.t, patience, func() error {
		select {
		case <-p.node.exited:
			if step == 0 {
				p.t.Fatalf("got an end of the start with exit code %d, want the node running", p.node.cmd.ProcessState.ExitCode())
			}
			step, p.node.env = 0, nil
			p.node.launch()
		default:
		}
		s, err := p.node.status()
		if err == nil && s.Phase != admin.PhaseRunning {
			err = fmt.Errorf("got phase %s, want the node running", s.Phase)
		}
		return err
	})
}

// settle applies all of a world; then nothing is left to do.
func (p *property) settle(w world) {
	p.t.Helper()
	done, err := p.apply(p.node.file(), true)
	if err != nil {
		p.t.Errorf("apply after the start: %v", err)
	}
	plan, err := p.plan(p.node.file())
	if err != nil {
		p.t.Errorf("second plan: %v", err)
		return
	}
	have := p.look()
	left, open := changesLeft(plan.Plan, have, w)
	for _, l := range left {
		p.t.Errorf("got this left after an apply with every allowance, want nothing: %s", l)
	}
	if len(left) > 0 {
		p.t.Errorf("the apply failed with %v", done.Report.Err())
	}
	if plan.Stale != nil {
		p.t.Errorf("got revision %d called newer after an apply, want this one in force", plan.Stale.ID)
	}
	for _, u := range unlike(w, have, open) {
		p.t.Errorf("got %s", u)
	}
}

func (p *property) plan(file string) (admin.PlanAnswer, error) {
	var a admin.PlanAnswer
	code, out := p.node.holdfast("plan", "--config", "holdfast.yaml", "--output", "json", file)
	if err := json.Unmarshal([]byte(out), &a); err != nil || code == exitFailed {
		return a, fmt.Errorf("exit code %d: %w: %s", code, err, out)
	}
	return a, nil
}

// apply applies a file with what its plan asks for, or with some of it.
func (p *property) apply(file string, everything bool) (admin.ApplyAnswer, error) {
	for {
		var done admin.ApplyAnswer
		plan, err := p.plan(file)
		if err != nil {
			return done, err
		}
		args := []string{"apply", "--config", "holdfast.yaml", "--yes", "--output", "json"}
		for _, name := range needAllowance(plan.Plan) {
			if everything || p.g.chance(40) {
				args = append(args, "--allow-destructive", name)
				if p.allowed != nil {
					p.allowed[name] = true
				}
			}
		}
		if plan.Stale != nil {
			args = append(args, "--rollback")
		}
		code, out := p.node.holdfast(append(args, file)...)
		if strings.Contains(out, "is not the one that was shown") {
			continue // the node has seen the file by itself
		}
		if err := json.Unmarshal([]byte(out), &done); err != nil {
			return done, fmt.Errorf("exit code %d: %w: %s", code, err, out)
		}
		for _, r := range done.Report.Results {
			if r.Action.Op.Changes() || r.Action.Op == bootstrap.Blocked {
				p.done[string(r.Action.Op)+" "+string(r.Outcome)]++
			}
		}
		return done, nil
	}
}

// check looks for every message that was there before or was acknowledged since.
func (p *property) check(base, now shelves, w world) {
	for path, before := range base {
		account, name, _ := strings.Cut(path, "/")
		regimes, file := []map[string]any{before.config}, &worldStream{}
		if acc := w[account]; acc != nil && acc.Streams[name] != nil {
			file = acc.Streams[name]
		}
		if p.allowed[path] {
			regimes = append(regimes, over(before.config, file.fields))
		}
		if p.forgets(regimes, base, account) {
			continue
		}
		if now[path] == nil {
			p.t.Errorf("got stream %s gone, want it kept: it was %v", path, before.config)
			continue
		}
		p.checkStream(path, before, now[path], file, regimes)
	}
	for path := range now {
		if strings.Contains(path, bootstrap.CopyName("")) {
			p.t.Errorf("got %s left, want no copy after a recreation", path)
		}
	}
}

// forgets reports whether a stream, or one that it copies, is none to keep messages.
func (p *property) forgets(regimes []map[string]any, base shelves, account string) bool {
	copies := slices.ContainsFunc(regimes, func(c map[string]any) bool { return !zero(c["mirror"]) || !zero(c["sources"]) })
	of := slices.Clone(regimes)
	for path, s := range base {
		if copies && strings.HasPrefix(path, account+"/") {
			of = append(of, s.config)
			if p.allowed[path] {
				return true
			}
		}
	}
	return p.killed && slices.ContainsFunc(of, volatile)
}

func (p *property) checkStream(path string, before, after *shelf, file *worldStream, regimes []map[string]any) {
	want := p.books.due(path, before)
	retained := func(kind string) bool {
		return slices.ContainsFunc(regimes, func(c map[string]any) bool { return c["retention"] == kind })
	}
	if retained("interest") && !slices.ContainsFunc(slices.Collect(maps.Keys(before.consumers)), func(c string) bool {
		return patient(c, before.consumers[c].Config, file.consumers[c])
	}) {
		return
	}
	lost := 0
	for _, seq := range slices.Sorted(maps.Keys(want)) {
		m, same := want[seq], uint64(0)
		for other, o := range want {
			if other > seq && o.token() == m.token() {
				same++
			}
		}
		same += p.books.unknown(path)
		if retained("workqueue") && p.books.touched(path, seq) || !before.keeps(seq, after.last, same, regimes) {
			continue
		}
		if got, ok := after.msgs[seq]; !ok || got.data != m.data {
			if lost++; lost <= 3 {
				p.t.Errorf("stream %s, message %d: got %q, want %q: nobody allowed its removal (allowed: %v)", path, seq, got.data, m.data, p.allowed)
			}
		}
	}
	if lost > 3 {
		p.t.Errorf("stream %s: got %d messages lost, want none", path, lost)
	}
	p.books.kept(len(want))
	// What was removed and is not due can come back after a kill, behind a consumer:
	// the server does not wait for the disk when it removes.
	fetched := func(seq uint64) bool { return want[seq] == (held{}) || p.books.touched(path, seq) }
	for name := range before.consumers {
		// What it had skipped before, by another policy, stays skipped.
		earlier := func(seq uint64) bool { return p.books.earlier[path][seq] }
		if want, got, sure := before.waits(before.consumers[name], earlier); !sure || got < want {
			continue
		}
		if want, got, sure := after.waits(after.consumers[name], fetched); sure && got < want {
			p.t.Errorf("consumer %s/%s: got %d messages waiting for it, want %d at least", path, name, got, want)
		}
	}
}

// shelves are the streams of all accounts, by ACCOUNT/STREAM.
type shelves map[string]*shelf

// shelf is a stream and all that it holds.
type shelf struct {
	config    map[string]any
	consumers map[string]*shelfConsumer
	msgs      map[uint64]held
	last      uint64
}

type shelfConsumer struct {
	Name       string         `json:"name"`
	Config     map[string]any `json:"config"`
	Pending    uint64         `json:"num_pending"`
	AckPending uint64         `json:"num_ack_pending"`
}

// held is a message; its subject ends in the same token wherever it was renamed to.
type held struct{ subject, data string }

func (h held) token() string { return h.subject[strings.LastIndexByte(h.subject, '.')+1:] }

// look reads everything.
func (p *property) look() shelves {
	p.t.Helper()
	out := shelves{}
	found, err := filepath.Glob(filepath.Join(p.node.data, "creds", "*", "admin.creds"))
	if err != nil || len(found) == 0 {
		p.t.Fatalf("got credentials %v, %v, want some", found, err)
	}
	for _, creds := range found {
		js := p.client(creds)
		names := js.StreamNames(p.t.Context())
		for name := range names.Name() {
			s, err := readShelf(p.t.Context(), js, name)
			if err != nil {
				p.t.Fatalf("read stream %s: %v", name, err)
			}
			out[filepath.Base(filepath.Dir(creds))+"/"+name] = s
		}
		if err := names.Err(); err != nil && !errors.Is(err, jetstream.ErrEndOfData) {
			p.t.Fatal(err)
		}
		js.Conn().Close()
	}
	return out
}

func (p *property) client(creds string) jetstream.JetStream {
	p.t.Helper()
	nc, err := nats.Connect("nats://"+p.node.address("client"), nats.UserCredentials(creds), nats.NoReconnect(), nats.Timeout(patience))
	if err != nil {
		p.t.Fatalf("connect: %v", err)
	}
	p.t.Cleanup(nc.Close)
	js, err := jetstream.New(nc, jetstream.WithDefaultTimeout(patience))
	if err != nil {
		p.t.Fatal(err)
	}
	return js
}

func readShelf(ctx context.Context, js jetstream.JetStream, name string) (*shelf, error) {
	var info struct {
		Config map[string]any        `json:"config"`
		State  bootstrap.StreamState `json:"state"`
	}
	var list struct {
		Consumers []*shelfConsumer `json:"consumers"`
	}
	for subject, into := range map[string]any{"STREAM.INFO." + name: &info, "CONSUMER.LIST." + name: &list} {
		m, err := js.Conn().RequestWithContext(ctx, "$JS.API."+subject, nil)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(m.Data, into); err != nil {
			return nil, err
		}
	}
	out := &shelf{config: info.Config, consumers: map[string]*shelfConsumer{}, msgs: map[uint64]held{}, last: info.State.LastSeq}
	for _, c := range list.Consumers {
		out.consumers[c.Name] = c
	}
	s, err := js.Stream(ctx, name)
	if err != nil {
		return nil, err
	}
	for seq := max(info.State.FirstSeq, 1); info.State.Messages > 0 && seq <= info.State.LastSeq; seq++ {
		m, err := s.GetMsg(ctx, seq)
		if err == nil {
			out.msgs[seq] = held{m.Subject, string(m.Data)}
		} else if !errors.Is(err, jetstream.ErrMsgNotFound) {
			return nil, err
		}
	}
	return out, nil
}

// traffic publishes to the streams of a world and works on them, until it is done or
// the node is gone; the result waits for that.
func (p *property) traffic(w world, least int) (wait func()) {
	p.t.Helper()
	var clients sync.WaitGroup
	for account, acc := range w {
		creds := filepath.Join(p.node.data, "creds", account, "admin.creds")
		js := p.client(creds)
		for name := range acc.Streams {
			path, n := account+"/"+name, 5+p.g.IntN(20)+least*20
			work := p.g.chance(60)
			clients.Go(func() { p.books.publish(p.t.Context(), js, path, n, work) })
		}
	}
	return clients.Wait
}

// ledger is what clients know.
type ledger struct {
	mu     sync.Mutex
	n      int
	acked  map[string]map[uint64]held // of this edition
	unsure map[string]uint64          // publishes without an answer
	seen   map[string]map[uint64]bool // sequences, by workers, ever
	// earlier is seen at the beginning of the edition.
	earlier map[string]map[uint64]bool
	looked  int
}

func newLedger() *ledger {
	b := &ledger{seen: map[string]map[uint64]bool{}}
	b.begin()
	return b
}

func (b *ledger) begin() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.acked, b.unsure, b.earlier = map[string]map[uint64]held{}, map[string]uint64{}, map[string]map[uint64]bool{}
	for path, seqs := range b.seen {
		b.earlier[path] = maps.Clone(seqs)
	}
}

func (b *ledger) publish(ctx context.Context, js jetstream.JetStream, path string, n int, work bool) {
	_, stream, _ := strings.Cut(path, "/")
	for i := range n {
		b.mu.Lock()
		b.n++
		m := held{fmt.Sprintf("%s.%d", strings.ToLower(stream), i%4), fmt.Sprintf("%s %d %s", path, b.n, strings.Repeat("x", b.n%120))}
		b.mu.Unlock()
		ack, err := js.Publish(ctx, m.subject, []byte(m.data), jetstream.WithRetryAttempts(0))
		b.mu.Lock()
		account, _, _ := strings.Cut(path, "/")
		if err != nil {
			b.unsure[path]++
		} else if at := account + "/" + ack.Stream; b.acked[at] == nil {
			b.acked[at] = map[uint64]held{ack.Sequence: m}
		} else {
			b.acked[at][ack.Sequence] = m
		}
		b.mu.Unlock()
		if js.Conn().IsClosed() {
			return
		}
		if work && i == n/2 {
			b.work(ctx, js, path)
		}
	}
}

// work fetches a few messages and acknowledges most of them.
func (b *ledger) work(ctx context.Context, js jetstream.JetStream, path string) {
	_, stream, _ := strings.Cut(path, "/")
	c, err := js.Consumer(ctx, stream, "work")
	if err != nil || c.CachedInfo().Config.AckPolicy != jetstream.AckExplicitPolicy {
		return
	}
	batch, err := c.FetchNoWait(6)
	if err != nil {
		return
	}
	for m := range batch.Messages() {
		meta, err := m.Metadata()
		if err != nil {
			continue
		}
		b.mu.Lock()
		if b.seen[path] == nil {
			b.seen[path] = map[uint64]bool{}
		}
		b.seen[path][meta.Sequence.Stream] = true
		b.mu.Unlock()
		_ = m.DoubleAck(ctx) // whether it arrived does not matter
	}
}

// due are the messages of a stream: those that were there, and what was added.
func (b *ledger) due(path string, before *shelf) map[uint64]held {
	b.mu.Lock()
	defer b.mu.Unlock()
	out := maps.Clone(before.msgs)
	maps.Copy(out, b.acked[path])
	return out
}

func (b *ledger) unknown(path string) uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.unsure[path]
}

func (b *ledger) touched(path string, seq uint64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.seen[path][seq]
}

func (b *ledger) kept(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.looked += n
}
