// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/admin"
	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/appliance/ingest"
	"github.com/holdfast-mq/holdfast/bootstrap"
)

// benchLimit bounds what it may take to lead the messages of a scratch stream through
// group commit, and to end that.
const benchLimit = 10 * time.Second

// errStopping ends measurements: their lanes end with the node, and the next start
// leads nothing there.
var errStopping = errors.New("the node is stopping")

// Bench has the messages of a scratch stream grouped as those of a declared stream are,
// until ctx ends.
func (a *Appliance) Bench(ctx context.Context, r admin.BenchRequest, led func()) error {
	if err := a.running(); err != nil {
		return err
	}
	if err := a.groupScratch(ctx, r); err != nil {
		return err
	}
	a.log.Info("measurement begun", keyAccount, r.Account, keyStream, r.Stream)
	led()
	select {
	case <-ctx.Done():
	case <-a.stopping:
		return errStopping
	}
	a.applying.Lock()
	defer a.applying.Unlock()
	select {
	case <-a.stopping:
		return errStopping
	default:
	}
	if err := a.ungroupScratch(ctx, r); err != nil {
		// Nobody is there to be told, and the next apply tries again.
		a.log.Warn("group commit of a measurement not ended", keyAccount, r.Account, keyStream, r.Stream, keyErr, err)
	}
	a.log.Info("measurement ended", keyAccount, r.Account, keyStream, r.Stream)
	return nil
}

func (a *Appliance) groupScratch(ctx context.Context, r admin.BenchRequest) error {
	a.applying.Lock()
	defer a.applying.Unlock()
	ctx, cancel := context.WithTimeout(ctx, benchLimit)
	defer cancel()
	lane, err := a.scratchLane(ctx, r)
	if err != nil {
		return err
	}
	a.scratch[r.Account] = append(a.scratch[r.Account], lane)
	if err := a.group(ctx, a.config()); err != nil {
		return errors.Join(fmt.Errorf("group the messages of stream %q: %w", r.Stream, err), a.ungroupScratch(ctx, r))
	}
	return nil
}

// ungroupScratch is called with applying locked.
func (a *Appliance) ungroupScratch(ctx context.Context, r admin.BenchRequest) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), benchLimit)
	defer cancel()
	a.scratch[r.Account] = slices.DeleteFunc(a.scratch[r.Account], func(l ingest.Lane) bool { return l.Stream == r.Stream })
	return a.group(ctx, a.config())
}

// scratchLane is the lane that the stream would have if the file declared it.
func (a *Appliance) scratchLane(ctx context.Context, r admin.BenchRequest) (ingest.Lane, error) {
	a.mu.Lock()
	applied, stale := a.report != nil, a.stale
	a.mu.Unlock()
	cfg := a.config()
	account, known := cfg.Accounts[r.Account]
	_, declared := account.Streams[r.Stream]
	switch {
	case stale != nil:
		return ingest.Lane{}, stale
	case !applied:
		return ingest.Lane{}, diag.Fail(diag.CodeNotReady, errors.New("the configuration is not applied yet"), "`holdfast status` says what is missing")
	case a.cluster != nil:
		return ingest.Lane{}, errors.New("what is measured in a cluster goes without group commit")
	case !known:
		return ingest.Lane{}, diag.Fail(diag.CodeUnknownObject, fmt.Errorf("account %q is not in the file", r.Account), "declare it, or take another one")
	case declared:
		return ingest.Lane{}, fmt.Errorf("stream %q is declared: the file says how its messages are committed", r.Stream)
	case slices.ContainsFunc(a.scratch[r.Account], func(l ingest.Lane) bool { return l.Stream == r.Stream }):
		return ingest.Lane{}, fmt.Errorf("stream %q is measured already", r.Stream)
	}
	observed, err := a.js.Observe(ctx, []string{r.Account})
	if err != nil {
		return ingest.Lane{}, err
	}
	o, exists := observed.Accounts[r.Account].Streams[r.Stream]
	if !exists {
		return ingest.Lane{}, diag.Fail(diag.CodeUnknownObject, fmt.Errorf("stream %q does not exist", r.Stream), "make it first")
	}
	if err := isScratch(o, r); err != nil {
		return ingest.Lane{}, fmt.Errorf("stream %q: %w", r.Stream, err)
	}
	for _, g := range decideGroups(declaring(cfg, r, text(o.Config["retention"])), r.Account, runtime.GOOS, a.flush) {
		switch {
		case g.lane.Stream != r.Stream:
		case !g.on:
			return ingest.Lane{}, errors.New(g.why)
		default:
			key, _ := a.identity.PublicKey(r.Account)
			return g.lane, a.engine.StageInMemory(key, r.Stream)
		}
	}
	return ingest.Lane{}, fmt.Errorf("stream %q is not known", r.Stream)
}

// isScratch refuses what `holdfast bench` has not made as the request says it.
func isScratch(o bootstrap.ObservedStream, r admin.BenchRequest) error {
	subjects, _ := o.Config["subjects"].([]any)
	consumer, exists := o.Consumers[r.Consumer]
	switch {
	case o.Unavailable != "":
		return errors.New("not readable: " + o.Unavailable)
	case !bootstrap.Scratch(o.Config):
		return errors.New("not made by `holdfast bench`")
	case o.Config["allow_atomic"] != true:
		return errors.New("it takes no atomic batches, in which messages are handed over together")
	case len(subjects) != 1 || text(subjects[0]) != r.Subject:
		return fmt.Errorf("it takes %v, want %q", subjects, r.Subject)
	case !exists || consumer.Unavailable != "" || len(o.Consumers) != 1:
		return fmt.Errorf("want %q as its only consumer", r.Consumer)
	}
	return nil
}

// declaring is the configuration with the scratch stream in it.
func declaring(cfg *config.Config, r admin.BenchRequest, retention string) *config.Config {
	with, account := *cfg, cfg.Accounts[r.Account]
	streams := map[string]config.Stream{r.Stream: {
		Subjects: []config.Subject{config.Subject(r.Subject)}, Retention: &retention, Consumers: map[string]config.Consumer{r.Consumer: {}},
	}}
	maps.Copy(streams, account.Streams)
	account.Streams = streams
	with.Accounts = maps.Clone(cfg.Accounts)
	with.Accounts[r.Account] = account
	return &with
}
