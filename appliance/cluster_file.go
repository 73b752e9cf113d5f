// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/holdfast-mq/holdfast/appliance/config"
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
				groups["group_commit of "+account+"/"+name] = *s.GroupCommit
			}
		}
	}
	if len(groups) > mostDecided {
		groups = map[string]string{"group_commit of the streams": bootstrap.Digest(bootstrap.Topology{}, groups)}
	}
	groups[keyDurability] = cfg.Storage.Durability
	return groups
}

// keyDurability is decided for the cluster only as far as group commit goes.
const keyDurability = "storage.durability"

// differing says in what the files of two nodes differ of what decides returns. An
// edition that does not say it yet, or a node that has no file in force, differs in nothing.
func differing(there, here map[string]string) []string {
	if there == nil || here == nil {
		return nil
	}
	keys := maps.Clone(there)
	maps.Copy(keys, here)
	var out []string
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if there[key] == here[key] {
			continue
		}
		what := fmt.Sprintf("%s is %s there and %s here", key, cmp.Or(there[key], config.GroupAuto), cmp.Or(here[key], config.GroupAuto))
		if key == keyDurability {
			what += " (each node flushes by its own)"
		}
		out = append(out, what)
	}
	return out
}
