// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"errors"
	"maps"
	"runtime"
	"slices"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/ingest"
	"github.com/holdfast-mq/holdfast/bootstrap/identity"
)

// In a cluster the leading node decides what is led through group commit, and writes it
// into the accounts' tokens, which all nodes share. Each node carries what the tokens say,
// whoever decided it: the messages of a stream go through the node that leads it.

// groupShared leads the messages of streams with copies through group commit, in the whole
// cluster.
func (a *Appliance) groupShared(ctx context.Context, decided map[string][]decision) error {
	routes := make(map[string][]identity.Mapping)
	var errs []error
	for account, list := range decided {
		errs = append(errs, a.stage(account, list))
		lanes := lanesOf(list)
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
	}
	if _, err := a.identity.Route(routes); err != nil {
		errs = append(errs, err)
	}
	errs = append(errs, a.publishIdentity(ctx))
	a.tellShared()
	return errors.Join(errs...)
}

// tellShared tells what the cluster's tokens lead through group commit, and of the rest
// why not, as far as this node's file says it.
func (a *Appliance) tellShared() {
	cfg := a.config()
	decided := make(map[string][]decision, len(cfg.Accounts))
	for account := range cfg.Accounts {
		decided[account] = decideGroups(cfg, account, runtime.GOOS, a.flush)
	}
	a.publishing.Lock()
	carried := a.carried
	a.publishing.Unlock()
	for account, list := range decided {
		for i := range list {
			if g := &list[i]; carries(carried[account], g.lane.Stream) {
				g.on, g.why = true, ""
			}
		}
	}
	a.notCarried(decided, carried, "not applied by the leading node yet")
	a.tellGrouped(decided)
}

// ledBy are the lanes that the accounts' tokens lead to.
func (a *Appliance) ledBy() (map[string][]ingest.Lane, error) {
	routes, err := a.identity.Routes()
	out := make(map[string][]ingest.Lane, len(routes))
	for account, list := range routes {
		mappings := make([]ingest.Mapping, 0, len(list))
		for _, m := range list {
			mappings = append(mappings, ingest.Mapping(m))
		}
		out[account] = ingest.Replicated(mappings)
	}
	return out, err
}

// carryShared carries what the tokens lead to, with what led before for as long as the
// server has the tokens of before: publishing hands it those of now.
func (a *Appliance) carryShared(ctx context.Context, publishing func() error) error {
	lanes, err := a.ledBy()
	if err != nil || maps.EqualFunc(lanes, a.carried, sameLanes) {
		return errors.Join(err, publishing())
	}
	var errs []error
	now := make(map[string][]ingest.Lane, len(lanes))
	tokens := a.identity.Trust().Preload
	for _, account := range slices.Sorted(maps.Keys(lanes)) {
		// To an account that the server does not know nobody can log in; nothing is led
		// there either.
		key, _ := a.identity.PublicKey(account)
		if a.published[key] == "" {
			continue
		}
		if err := a.carryAccount(ctx, account, union(lanes[account], a.carried[account])); err != nil {
			errs = append(errs, err)
			continue
		}
		if tokens[key] != a.published[key] { // or it is led there already
			a.awaitCarrier(ctx, account, lanes[account])
		}
	}
	errs = append(errs, publishing())
	for _, account := range slices.Sorted(maps.Keys(lanes)) {
		if err := a.carryAccount(ctx, account, lanes[account]); err != nil {
			errs = append(errs, err)
			now[account] = a.carried[account]
			continue
		}
		now[account] = lanes[account]
	}
	for account := range a.carried {
		if len(lanes[account]) == 0 {
			errs = append(errs, a.carry(ctx, account, "", nil))
		}
	}
	a.carried = now
	return errors.Join(errs...)
}

func (a *Appliance) carryAccount(ctx context.Context, account string, lanes []ingest.Lane) error {
	secret, err := a.identity.RouteSecret(account)
	if err != nil {
		return err
	}
	return a.carry(ctx, account, secret, lanes)
}

// awaitCarrier waits, for a moment, until some node takes what is to be led to these
// lanes: publishers would be told that nobody responds. A stream without a leader has
// nobody, and would have nobody without group commit.
func (a *Appliance) awaitCarrier(ctx context.Context, account string, lanes []ingest.Lane) {
	ctx, cancel := context.WithTimeout(ctx, carrierWithin)
	defer cancel()
	key, _ := a.identity.PublicKey(account)
	for _, l := range lanes {
		if carries(a.carried[account], l.Stream) {
			continue
		}
		for !a.engine.Interest(key, l.Leads()) {
			select {
			case <-ctx.Done():
				return
			case <-time.After(carrierPoll):
			}
		}
	}
}

const (
	carrierWithin = 2 * time.Second
	carrierPoll   = 10 * time.Millisecond
)

func sameLanes(a, b []ingest.Lane) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(l ingest.Lane) bool { return !carries(b, l.Stream) })
}
