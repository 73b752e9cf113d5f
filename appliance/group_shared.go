// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"errors"
	"maps"
	"slices"

	"github.com/holdfast-mq/holdfast/appliance/ingest"
	"github.com/holdfast-mq/holdfast/bootstrap/identity"
)

// In a cluster the leading node decides what is led through group commit, and writes it
// into the accounts' tokens, which all nodes share. Each node carries what its own clients
// publish, as the tokens say, whoever decided it.

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
	// Other nodes may have something under way when this one knows nothing of it.
	led, err := a.identity.Routes()
	if err == nil {
		err = a.keepWaysBack(routes, slices.Collect(maps.Keys(led)))
	}
	if err != nil {
		return err
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
	led, err := a.ledBy()
	if err != nil {
		return // publishIdentity says so
	}
	decided := a.decideAll(a.config())
	for account, list := range decided {
		for i := range list {
			if g := &list[i]; carries(led[account], g.lane.Stream) {
				g.on, g.why = true, ""
			}
		}
	}
	notCarried(decided, led, notYet)
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
		if lanes := ingest.Replicated(mappings); len(lanes) > 0 {
			out[account] = lanes
		}
	}
	return out, err
}

// toCarry are the lanes that tokens lead to, and those to which they may soon: a new token
// comes to the server from any node, and publishers must find somebody at once.
func (a *Appliance) toCarry() (map[string][]ingest.Lane, error) {
	out, err := a.ledBy()
	for account, list := range a.decideAll(a.config()) {
		if _, known := a.identity.PublicKey(account); !known {
			continue // the leading node makes it
		}
		for _, g := range list {
			if g.lane.Replicated && len(g.lane.Subjects) > 0 && !carries(out[account], g.lane.Stream) {
				out[account] = append(out[account], g.lane)
			}
		}
	}
	return out, err
}

// carryShared carries what there is to carry, with what there was for as long as the
// server has the tokens of before: publish hands it those of now, and only that can fail.
// Who may connect must not wait for group commit.
func (a *Appliance) carryShared(ctx context.Context, publish func() error) error {
	lanes, err := a.toCarry()
	if err != nil || maps.EqualFunc(lanes, a.carried, sameLanes) {
		a.tellNotCarried(ctx, err)
		return publish()
	}
	var errs []error
	for _, account := range slices.Sorted(maps.Keys(lanes)) {
		// To an account that the server does not know nobody can log in; nothing is led
		// there either.
		if key, _ := a.identity.PublicKey(account); a.published[key] != "" {
			errs = append(errs, a.carryAccount(ctx, account, union(lanes[account], a.carried[account])))
		}
	}
	published := publish()
	now := make(map[string][]ingest.Lane, len(lanes))
	for account := range a.carried {
		if len(lanes[account]) == 0 {
			errs = append(errs, a.carry(ctx, account, "", nil))
		}
	}
	for _, account := range slices.Sorted(maps.Keys(lanes)) {
		if err := a.carryAccount(ctx, account, lanes[account]); err != nil {
			errs = append(errs, err)
			continue // and tried again
		}
		now[account] = lanes[account]
	}
	a.carried = now
	a.tellNotCarried(ctx, errors.Join(errs...))
	return published
}

// tellNotCarried logs that clients of this node can't publish what is led to group commit.
func (a *Appliance) tellNotCarried(ctx context.Context, err error) {
	if a.news("group commit", err) && ctx.Err() == nil {
		a.log.Error("group commit does not run here: what is led to it can't be published at this node, it is tried again soon", keyErr, err,
			keyFix, "let clients connect to another node; restart this one if it lasts")
	}
}

func (a *Appliance) carryAccount(ctx context.Context, account string, lanes []ingest.Lane) error {
	secret, err := a.identity.RouteSecret(account)
	if err != nil {
		return err
	}
	return a.carry(ctx, account, secret, lanes)
}

func sameLanes(a, b []ingest.Lane) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(l ingest.Lane) bool { return !carries(b, l.Stream) })
}
