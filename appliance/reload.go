// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"errors"
	"reflect"

	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/bootstrap"
)

// config is the configuration in force: that of the start, with the accounts of
// the latest reload.
func (a *Appliance) config() *config.Config { return a.current.Load() }

// reload reads the configuration again and applies what can change while the
// node runs: accounts, limits, users and what they may do at once, and streams
// and consumers that are missing. A configuration with an error changes nothing.
func (a *Appliance) reload(ctx context.Context) {
	cfg, problems := a.opts.Reload()
	if err := problems.Err(); err != nil {
		for _, p := range problems {
			a.log.Error("configuration not reloaded, the old one stays in force", keyCode, string(p.Code), keyWhere, p.Pos.String(),
				keyWhat, subject(p), keyFix, p.Fix)
		}
		a.reloaded(false)
		return
	}
	changes, err := a.identity.Apply(identityAccounts(cfg))
	if err != nil {
		a.log.Error("configuration not reloaded, the old one stays in force", keyErr, err, keyFix, diag.Hint(err))
		a.reloaded(false)
		return
	}
	a.tellIdentity(changes)
	a.rememberKeys()
	old := a.current.Swap(cfg)
	a.mu.Lock()
	a.topology = bootstrap.FromConfig(cfg, 1)
	a.report = nil // what is missing is not known before the apply
	a.mu.Unlock()
	if err := errors.Join(a.writeCreds(), a.publishIdentity(ctx)); err != nil {
		a.log.Warn("credentials not brought up to date, tried again soon", keyErr, err)
	}
	a.apply(ctx)
	a.warn(problems)
	for _, key := range needRestart(a.opts.Config, cfg) {
		a.log.Warn("changed, but a restart is needed for it to take effect", keyWhat, key)
	}
	a.log.Info("configuration reloaded", keyDigest, digest(cfg), "before", digest(old))
	a.reloaded(true)
}

// needRestart names the parts of the configuration that differ from those the
// node was started with.
func needRestart(started, now *config.Config) []string {
	var out []string
	for _, part := range []struct {
		key  string
		a, b any
	}{
		{"node", started.Node, now.Node},
		{"listen", started.Listen, now.Listen},
		{"storage", started.Storage, now.Storage},
		{"log", started.Log, now.Log},
		{"nats", started.NATS, now.NATS},
	} {
		if !reflect.DeepEqual(part.a, part.b) {
			out = append(out, part.key)
		}
	}
	return out
}

func (a *Appliance) reloaded(ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reloadFailed = !ok
}

// ReloadFailed reports whether the latest reload was refused.
func (a *Appliance) ReloadFailed() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.reloadFailed
}
