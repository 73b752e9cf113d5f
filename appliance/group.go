// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"errors"
	"maps"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/appliance/ingest"
	"github.com/holdfast-mq/holdfast/bootstrap/identity"
)

const (
	// leastFlush is the flush time from which on group commit is faster with a few
	// publishers already: a batch costs about a millisecond of computing.
	leastFlush = 40 * time.Microsecond
	// mostMapped bounds the subjects of an account that lead through group commit
	// unasked: the server compares each of them with everything that a client publishes.
	mostMapped = 50
)

// openIngest prepares group commit, which carries nothing yet.
func (a *Appliance) openIngest() error {
	var err error
	if a.flush, err = a.dir.FlushTime(); err != nil {
		return err
	}
	a.ingest = ingest.New(ingest.Options{
		Dialer: a.engine,
		Credentials: func(account string) (string, []byte, error) {
			l, err := a.identity.InternalLogin(account)
			return l.Token, []byte(l.Seed.Reveal()), err
		},
		Listening: listening{a},
		Log:       a.log,
	})
	return nil
}

// group leads the messages of the declared streams through group commit, where it is
// wanted, and no others. It is called with the accounts known to the server and the
// streams made. What is not grouped is as durable, and slower.
func (a *Appliance) group(ctx context.Context, cfg *config.Config) error {
	routes := make(map[string][]identity.Mapping)
	wanted := make(map[string][]ingest.Lane)
	for _, account := range slices.Sorted(maps.Keys(cfg.Accounts)) {
		lanes := a.lanes(cfg, account)
		if len(lanes) == 0 {
			continue
		}
		secret, err := a.identity.RouteSecret(account)
		if err != nil {
			return err
		}
		for _, m := range ingest.Mappings(secret, lanes) {
			routes[account] = append(routes[account], identity.Mapping(m))
		}
		wanted[account] = lanes
		// Those that end stay until nothing is led to them any more.
		if err := a.ingest.Set(ctx, account, secret, union(lanes, a.grouped[account])); err != nil {
			return err
		}
	}
	changed, err := a.identity.Route(routes)
	if err != nil {
		return err
	}
	if changed {
		if err := a.publishIdentity(ctx); err != nil {
			return err
		}
	}
	var errs []error
	for account := range a.grouped {
		if len(wanted[account]) == 0 {
			errs = append(errs, a.ingest.Set(ctx, account, "", nil))
		}
	}
	for account, lanes := range wanted {
		errs = append(errs, a.ingest.Set(ctx, account, "", lanes))
	}
	a.grouped = wanted
	return errors.Join(errs...)
}

// lanes are the streams of an account whose messages are grouped, those of a measurement
// included.
func (a *Appliance) lanes(cfg *config.Config, account string) []ingest.Lane {
	var lanes []ingest.Lane
	mapped := 0
	for _, name := range slices.Sorted(maps.Keys(cfg.Accounts[account].Streams)) {
		s := cfg.Accounts[account].Streams[name]
		mode := cfg.GroupCommit(account, name)
		subjects := texts(s.Captured(name))
		mapped += len(subjects)
		if mode == config.GroupOff || mode == config.GroupAuto && (!a.groupingPays() || mapped > mostMapped) {
			continue
		}
		l := ingest.Lane{Stream: name, Subjects: subjects, MaxMsgSize: math.MaxInt, OwnBatches: s.AllowAtomic != nil}
		if l.Consumer = cfg.GroupedConsumer(account, name); len(subjects) == 1 && s.SubjectTransform == nil {
			l.PurgeFilter = subjects[0]
		}
		if s.MaxMsgSize != nil && *s.MaxMsgSize > 0 {
			l.MaxMsgSize = int(*s.MaxMsgSize)
		}
		if !l.OwnBatches {
			key, _ := a.identity.PublicKey(account)
			if err := a.engine.StageInMemory(key, name); err != nil {
				a.log.Debug("batches are staged on disk", keyStream, name, keyErr, err)
			}
		}
		lanes = append(lanes, l)
	}
	return union(lanes, a.scratch[account])
}

// groupingPays reports whether auto means on, here.
func (a *Appliance) groupingPays() bool { return runtime.GOOS == "linux" && a.flush >= leastFlush }

func union(a, b []ingest.Lane) []ingest.Lane {
	out := slices.Clone(a)
	for _, l := range b {
		if !slices.ContainsFunc(a, func(have ingest.Lane) bool { return have.Stream == l.Stream }) {
			out = append(out, l)
		}
	}
	return out
}

// ownConnections returns how many of the server's connections are Holdfast's.
func (a *Appliance) ownConnections() int { return a.js.Connections() + a.ingest.Connections() }

// listening tells group commit who listens, by the names of accounts.
type listening struct{ a *Appliance }

func (l listening) key(account string) string {
	key, _ := l.a.identity.PublicKey(account)
	return key
}

func (l listening) Interest(account, subject string) bool {
	return l.a.engine.Interest(l.key(account), subject)
}

func (l listening) Listening(account string) (uint64, error) {
	return l.a.engine.Listening(l.key(account))
}

func (l listening) Listeners(account string) ([]ingest.Listener, error) {
	list, err := l.a.engine.Listeners(l.key(account))
	out := make([]ingest.Listener, 0, len(list))
	for _, s := range list {
		out = append(out, ingest.Listener(s))
	}
	return out, err
}
