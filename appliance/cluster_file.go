// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/appliance/join"
	"github.com/holdfast-mq/holdfast/bootstrap"
)

// mostDecided bounds what a node says of itself every few seconds.
const mostDecided = 1000

// decides is what the node that leads decides for all of the cluster by its file, and
// that is not in the digest of what is applied: it changes no object, so that a change of
// it is no revision and makes no file stale. That is who goes through group commit;
// storage.durability is the only key besides group_commit that takes part in it. Streams
// with the default are left out.
func decides(cfg *config.Config) map[string]string {
	groups := map[string]string{}
	for account, a := range cfg.Accounts {
		for name, s := range a.Streams {
			if s.GroupCommit != nil && *s.GroupCommit != config.GroupAuto {
				groups[keyGroup(account, name)] = *s.GroupCommit
			}
		}
	}
	if len(groups) > mostDecided {
		groups = map[string]string{"group_commit of the streams": bootstrap.Digest(bootstrap.Topology{}, groups)}
	}
	groups[keyDurability] = cfg.Storage.Durability
	return groups
}

func keyGroup(account, stream string) string { return "group_commit of " + account + "/" + stream }

// keyDurability is decided for the cluster only as far as group commit goes.
const keyDurability = "storage.durability"

// differing says in what the file of a node differs from the one that counts, of what
// decides returns. An edition that does not say it yet, or a node that has no file in
// force, differs in nothing.
func differing(node, counts join.Answer) []string {
	if node.Decides == nil || counts.Decides == nil {
		return nil
	}
	keys := maps.Clone(node.Decides)
	maps.Copy(keys, counts.Decides)
	var out []string
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		one, other := cmp.Or(node.Decides[key], config.GroupAuto), cmp.Or(counts.Decides[key], config.GroupAuto)
		if one == other {
			continue
		}
		what := fmt.Sprintf("%s is %s on node %s and %s on node %s", key, one, node.Node, other, counts.Node)
		if key == keyDurability {
			what += " (each node flushes by its own)"
		}
		out = append(out, what)
	}
	return out
}

// fileRefused says why the file as it is now is not in force; empty when it is.
func (a *Appliance) fileRefused() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.stale != nil:
		return "the file as it is now is not in force: " + a.stale.Error()
	case a.refused != nil:
		return a.refused.What
	}
	return ""
}

// offByLeader says that the file of the node that leads turns group commit off for a
// stream; empty where that is not known.
func (a *Appliance) offByLeader(account, stream string) string {
	c, leader := a.others(), a.leader()
	if c == nil || leader == "" {
		return ""
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range c.peers {
		if p.answer.Node == leader {
			return offIn(p.answer, account, stream)
		}
	}
	return ""
}

// offIn says that the file of the node that leads turns group commit off for a stream.
func offIn(leads join.Answer, account, stream string) string {
	if leads.Decides[keyGroup(account, stream)] != config.GroupOff {
		return ""
	}
	return "group_commit is off in the file of node " + leads.Node + ", which leads"
}
