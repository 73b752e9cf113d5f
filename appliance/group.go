// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"errors"
	"fmt"
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
		// A full volume is an ordinary event: consumers go on, and messages go one by one.
		a.log.Warn("how long a flush of the disk takes is not known, group_commit auto is off", keyErr, err)
	}
	a.ingest = ingest.New(ingest.Options{
		Dialer: a.engine,
		Credentials: func(account string) (string, []byte, error) {
			l, err := a.identity.InternalLogin(account)
			return l.Token, []byte(l.Seed.Reveal()), err
		},
		Listening: listening{a},
		Maps: func(account, from string) bool {
			key, _ := a.identity.PublicKey(account)
			return a.engine.Maps(key, from)
		},
		Log: a.log,
	})
	return nil
}

// decision says whether the messages of a declared stream go through group commit.
type decision struct {
	lane ingest.Lane
	on   bool
	why  string // not
}

// group leads the messages of the declared streams through group commit, where it is
// wanted, and no others. It is called with the accounts known to the server and the
// streams made. What is not grouped is as durable, and slower.
func (a *Appliance) group(ctx context.Context, cfg *config.Config) error {
	decided := a.decideAll(cfg)
	if a.cluster != nil {
		return a.groupShared(ctx, decided)
	}
	for _, list := range decided {
		for i := range list {
			if g := &list[i]; g.on && g.lane.Replicated {
				g.on, g.why = false, "the node is not one of its cluster yet"
			}
		}
	}
	err := a.lead(ctx, decided)
	if ctx.Err() != nil {
		return err
	}
	if err != nil {
		notCarried(decided, a.grouped, "not brought up to date: "+err.Error())
	}
	a.tellGrouped(decided)
	return err
}

// decideAll is decideGroups for all accounts of a configuration, on this node.
func (a *Appliance) decideAll(cfg *config.Config) map[string][]decision {
	decided := make(map[string][]decision, len(cfg.Accounts))
	for account := range cfg.Accounts {
		decided[account] = decideGroups(cfg, account, runtime.GOOS, a.flush)
	}
	return decided
}

// notCarried takes what was decided back for streams that are not carried.
func notCarried(decided map[string][]decision, carried map[string][]ingest.Lane, why string) {
	for account, list := range decided {
		for i := range list {
			if g := &list[i]; g.on && !carries(carried[account], g.lane.Stream) {
				g.on, g.why = false, why
			}
		}
	}
}

// leadStraight leads messages to their streams when nothing could be decided since the
// start, as with a stale configuration: the mappings of the run before are in the
// accounts' tokens, and nobody is there whom they lead to.
func (a *Appliance) leadStraight(ctx context.Context) error {
	if a.cluster != nil {
		return nil // where other nodes may have decided, and each carries
	}
	a.applying.Lock()
	defer a.applying.Unlock()
	if a.decisions() != nil {
		return nil
	}
	return a.lead(ctx, nil)
}

// leadAway leads messages and acknowledgements to the streams themselves while the node
// sends its clients away: workers are given messages until they go, and have to be able to
// acknowledge them. Tokens stay as they are, for the next start and for other nodes.
func (a *Appliance) leadAway() {
	routes, err := a.identity.Routes()
	if err != nil {
		a.log.Warn("group commit not ended before the stop: clients try again after it", keyErr, err)
	}
	for account, list := range routes {
		var from []string
		for _, m := range list {
			if m.To != ">" { // the way back, for what waits
				from = append(from, m.From)
			}
		}
		key, _ := a.identity.PublicKey(account)
		a.engine.Unmap(key, from)
	}
}

// lead makes accounts' mappings, and what ingest carries, what was decided.
func (a *Appliance) lead(ctx context.Context, decided map[string][]decision) error {
	routes := make(map[string][]identity.Mapping)
	wanted := make(map[string][]ingest.Lane)
	var errs []error
	failed := make(map[string]bool)
	for _, account := range slices.Sorted(maps.Keys(decided)) {
		errs = append(errs, a.stage(account, decided[account]))
		lanes := union(lanesOf(decided[account]), a.scratch[account])
		if len(lanes) == 0 {
			continue
		}
		secret, err := a.identity.RouteSecret(account)
		if err != nil {
			return err
		}
		// Those that end stay until nothing is led to them any more.
		if err := a.carry(ctx, account, secret, union(lanes, a.grouped[account])); err != nil {
			errs = append(errs, err) // nothing must be led where nobody takes it
			failed[account] = true
			continue
		}
		for _, m := range ingest.Mappings(secret, lanes) {
			routes[account] = append(routes[account], identity.Mapping(m))
		}
		wanted[account] = lanes
	}
	if err := a.keepWaysBack(routes, slices.Collect(maps.Keys(a.grouped))); err != nil {
		return err
	}
	changed, err := a.identity.Route(routes)
	if err == nil && changed {
		err = a.publishIdentity(ctx)
	}
	if err != nil {
		return errors.Join(append(errs, err)...) // the lanes of before go on, too
	}
	for account := range a.grouped {
		if len(wanted[account]) == 0 && !failed[account] {
			errs = append(errs, a.carry(ctx, account, "", nil))
		}
	}
	for account, lanes := range wanted {
		errs = append(errs, a.carry(ctx, account, "", lanes))
	}
	a.grouped = wanted
	return errors.Join(errs...)
}

// keepWaysBack keeps the way to the streams for what is under way in accounts that had
// lanes until now.
func (a *Appliance) keepWaysBack(routes map[string][]identity.Mapping, had []string) error {
	for _, account := range had {
		if _, known := a.identity.PublicKey(account); !known || len(routes[account]) > 0 {
			continue
		}
		secret, err := a.identity.RouteSecret(account)
		if err != nil {
			return err
		}
		routes[account] = []identity.Mapping{identity.Mapping(ingest.WayBack(secret))}
	}
	return nil
}

// carryWithin bounds how long an account may take to connect in process.
const carryWithin = 10 * time.Second

func (a *Appliance) carry(ctx context.Context, account, secret string, lanes []ingest.Lane) error {
	ctx, cancel := context.WithTimeout(ctx, carryWithin)
	defer cancel()
	if err := a.ingest.Set(ctx, account, secret, lanes); err != nil {
		return fmt.Errorf("group commit in account %q: %w", account, err)
	}
	return nil
}

// decideGroups says of each declared stream of an account, by name, whether its
// messages are grouped, on a platform and a disk that takes flush to make one durable.
func decideGroups(cfg *config.Config, account, platform string, flush time.Duration) []decision {
	var out []decision
	mapped := 0
	for _, name := range slices.Sorted(maps.Keys(cfg.Accounts[account].Streams)) {
		s := cfg.Accounts[account].Streams[name]
		subjects := texts(s.Captured(name))
		g := decision{lane: ingest.Lane{
			Stream: name, Subjects: subjects, Replicated: cfg.Copied(account, name), MaxMsgSize: math.MaxInt, OwnBatches: s.AllowAtomic != nil,
		}}
		if s.MaxMsgSize != nil && *s.MaxMsgSize > 0 {
			g.lane.MaxMsgSize = int(*s.MaxMsgSize)
		}
		if !g.lane.Replicated {
			g.lane.Consumer = cfg.GroupedConsumer(account, name)
		}
		if len(subjects) == 1 && s.SubjectTransform == nil {
			g.lane.PurgeFilter = subjects[0]
		}
		mode, why := cfg.GroupCommit(account, name)
		switch {
		case mode == config.GroupOff:
			g.why = why
		case mode == config.GroupOn:
		case platform != "linux":
			g.why = "not on this platform, unless group_commit is on"
		case flush < leastFlush:
			g.why = "flushes take " + shortDuration(flush) + ": no gain"
		case mapped+len(subjects) > mostMapped:
			g.why = fmt.Sprintf("it would be for more than %d subjects of the account", mostMapped)
		}
		if g.on = g.why == ""; g.on {
			mapped += len(subjects)
		}
		out = append(out, g)
	}
	return out
}

// lanesOf are the lanes of the streams whose messages are grouped.
func lanesOf(decided []decision) []ingest.Lane {
	var lanes []ingest.Lane
	for _, g := range decided {
		if !g.on {
			continue
		}
		lanes = append(lanes, g.lane)
	}
	return lanes
}

func carries(lanes []ingest.Lane, stream string) bool {
	return slices.ContainsFunc(lanes, func(l ingest.Lane) bool { return l.Stream == stream })
}

// stage has the batches of an account's lanes staged in memory, and all others on disk.
func (a *Appliance) stage(account string, decided []decision) error {
	key, _ := a.identity.PublicKey(account)
	for _, g := range decided {
		name := g.lane.Stream
		if !g.on || g.lane.OwnBatches || g.lane.Replicated {
			if err := a.engine.StageOnDisk(key, name); err != nil {
				return err
			}
		} else if err := a.engine.StageInMemory(key, name); err != nil {
			a.log.Debug("batches are staged on disk", keyStream, name, keyErr, err)
		}
	}
	return nil
}

func union(a, b []ingest.Lane) []ingest.Lane {
	out := slices.Clone(a)
	for _, l := range b {
		if !carries(a, l.Stream) {
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
