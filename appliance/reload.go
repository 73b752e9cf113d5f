// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"path/filepath"
	"reflect"
	"slices"

	"github.com/holdfast-mq/holdfast/appliance/admin"
	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// config is the configuration in force: that of the start, with the accounts of
// the latest reload or apply.
func (a *Appliance) config() *config.Config { return a.current.Load() }

// reload reads the configuration again and applies what can change while the node
// runs and needs nobody's consent. A configuration with an error changes nothing.
func (a *Appliance) reload(ctx context.Context, by string) {
	cfg, problems := a.opts.Load(nil)
	if err := problems.Err(); err != nil {
		// A reload by hand and the change of the file itself come together.
		if fresh := a.news("reload", err); fresh || by != byFileChange {
			for _, p := range problems {
				a.log.Error("configuration not reloaded, the old one stays in force", keyCode, string(p.Code), keyWhere, p.Pos.String(),
					keyWhat, subject(p), keyFix, p.Fix)
			}
		}
		a.reloaded(&admin.Problems(firstError(problems))[0])
		return
	}
	a.news("reload", nil)
	a.asRead.Store(cfg)
	before := digest(a.config())
	out, err := a.converge(ctx, a.newChange(cfg, by))
	if err != nil {
		a.log.Error("configuration not reloaded, the old one stays in force", keyErr, err, keyFix, diag.Hint(err))
		a.reloaded(&admin.Problem{Severity: diag.Error.String(), Code: diag.CodeOf(err), What: err.Error(), Fix: diag.Hint(err)})
		return
	}
	a.tellApplied(out.report, true)
	a.warn(problems)
	for _, key := range needRestart(a.startedWith(), cfg) {
		a.log.Warn("changed, but a restart is needed for it to take effect", keyWhat, key)
	}
	a.log.Info("configuration reloaded", keyDigest, digest(cfg), "before", before)
	a.reloaded(nil)
}

// needRestart names the parts of the configuration that differ from those the
// node was started with.
func needRestart(started, now *config.Config) []string {
	var out []string
	for _, part := range []struct {
		key  string
		a, b any
	}{
		{"node", nodeOf(started), nodeOf(now)},
		{"listen", listenOf(started), listenOf(now)},
		{"storage.durability", started.Storage.Durability, now.Storage.Durability},
		{"storage.sync_interval", started.Storage.SyncInterval, now.Storage.SyncInterval},
		{"storage.limit", started.Storage.Limit, now.Storage.Limit},
		{"storage.encryption", started.Storage.Encryption, now.Storage.Encryption},
		{"cluster", started.Cluster, now.Cluster},
		{"log", started.Log, now.Log},
		{"nats", started.NATS, now.NATS},
	} {
		if !reflect.DeepEqual(part.a, part.b) {
			out = append(out, part.key)
		}
	}
	return out
}

func (a *Appliance) needRestart() []string {
	cfg := *a.config()
	cfg.Cluster = a.asRead.Load().Cluster
	return needRestart(a.startedWith(), &cfg)
}

// startedWith is the configuration of the start, with the block cluster of a node that is
// a single one until it has grown, too.
func (a *Appliance) startedWith() *config.Config {
	if a.growth != nil {
		return a.growth.config
	}
	return a.opts.Config
}

// nodeOf and listenOf are parts in which the same file has the same path, from
// wherever the configuration was read.
func nodeOf(cfg *config.Config) config.Node {
	n := cfg.Node
	n.DataDir = absolute(n.DataDir)
	return n
}

func listenOf(cfg *config.Config) config.Listen {
	l := cfg.Listen
	l.TLS.Cert, l.TLS.Key, l.TLS.CA = absolute(l.TLS.Cert), absolute(l.TLS.Key), absolute(l.TLS.CA)
	return l
}

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil && path != "" {
		return abs
	}
	return path
}

// firstError is the first error of a list that has one.
func firstError(l diag.List) diag.List {
	i := slices.IndexFunc(l, func(p diag.Problem) bool { return p.Severity == diag.Error })
	return l[i : i+1]
}

// reloaded keeps why the latest reload was refused; nil when it was not.
func (a *Appliance) reloaded(refused *admin.Problem) {
	if refused != nil {
		refused.What = "the file as it is now is not in force, what was read before it is: " + refused.What
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refused = refused
}

// ReloadFailed reports whether the latest reload was refused.
func (a *Appliance) ReloadFailed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.refused != nil || a.stale != nil
}
