// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/appliance/datadir"
	"github.com/holdfast-mq/holdfast/appliance/engine"
	"github.com/holdfast-mq/holdfast/bootstrap/identity"
)

const (
	// defaultSyncInterval is between fsyncs with durability interval, unless
	// the file says otherwise.
	defaultSyncInterval = time.Second
	// lameDuck bounds how long clients are sent away, one after the other;
	// lameDuckGrace is what passes before the first goes, for replies under way.
	lameDuck      = 20 * time.Second
	lameDuckGrace = 500 * time.Millisecond
	// memoryStreamShare is the part of the memory limit that memory streams may
	// take: the rest is for connections, caches and recovery.
	memoryStreamShare = 0.25
	// ownConnections is what Holdfast itself holds in an account: one to look after
	// streams, one for group commit. They count against the account's limit, which is
	// meant for its users.
	ownConnections = 2
	// adminUser is made in an account that declares no user.
	adminUser = "admin"
)

// place is what the engine needs of the data directory.
type place struct{ name, store, resolver string }

func placeOf(dir *datadir.Dir) place {
	return place{name: dir.NodeName(), store: dir.StoreDir(), resolver: dir.ResolverDir()}
}

// engineSettings is the configuration as the engine needs it.
func engineSettings(cfg *config.Config, at place, t identity.Trust, storeLimit, memLimit int64, version string) engine.Settings {
	host, port := cfg.Listen.Client.Split()
	return engine.Settings{
		NodeName:         at.name,
		Version:          version,
		ClientHost:       host,
		ClientPort:       port,
		StoreDir:         at.store,
		ResolverDir:      at.resolver,
		MaxStoreBytes:    storeLimit,
		MaxMemoryBytes:   memoryStreams(cfg, memLimit),
		SyncAlways:       cfg.Storage.Durability == "strict",
		SyncInterval:     syncInterval(cfg),
		Tags:             cfg.Node.Tags,
		OperatorJWT:      t.OperatorJWT,
		SystemAccount:    t.SystemAccount,
		Preload:          t.Preload,
		LameDuckDuration: lameDuck,
		LameDuckGrace:    lameDuckGrace,
		Extra:            extra(cfg.NATSKeys()),
	}
}

func extra(keys []config.NATSKey) []engine.ExtraKey {
	var out []engine.ExtraKey
	for _, k := range keys {
		out = append(out, engine.ExtraKey{Name: k.Name, Value: k.Value})
	}
	return out
}

// memoryStreams is what memory streams may take. What the file promises to
// accounts has to fit: the server gives no JetStream to one that does not.
func memoryStreams(cfg *config.Config, memLimit int64) int64 {
	var promised int64
	for _, a := range cfg.Accounts {
		if m := a.Limits.Memory; m != nil && *m > 0 {
			promised += int64(*m)
		}
	}
	return max(int64(float64(memLimit)*memoryStreamShare), promised)
}

func syncInterval(cfg *config.Config) time.Duration {
	if cfg.Storage.SyncInterval != nil {
		return time.Duration(*cfg.Storage.SyncInterval)
	}
	return defaultSyncInterval
}

// identityAccounts is who the configuration lets in.
func identityAccounts(cfg *config.Config) []identity.Account {
	var out []identity.Account
	for _, name := range slices.Sorted(maps.Keys(cfg.Accounts)) {
		a := identity.Account{Name: name, Limits: limits(cfg.Accounts[name].Limits, cfg.Nodes())}
		users := cfg.Accounts[name].Users
		if len(users) == 0 {
			users = map[string]config.User{adminUser: {}}
		}
		for _, u := range slices.Sorted(maps.Keys(users)) {
			a.Users = append(a.Users, identityUser(cfg, name, u, users[u]))
		}
		out = append(out, a)
	}
	return out
}

func identityUser(cfg *config.Config, account, name string, declared config.User) identity.User {
	u := identity.User{
		Name:        name,
		Role:        identity.Role(declared.RoleName()),
		SharedInbox: declared.Inbox == "shared",
		PublicKey:   declared.NKey,
	}
	if u.Role == "" {
		u.Role = identity.RoleCustom
		u.Publish, u.Subscribe = texts(declared.Permissions.Publish), texts(declared.Permissions.Subscribe)
	}
	for _, s := range declared.Streams {
		u.Subjects = append(u.Subjects, texts(cfg.Accounts[account].Streams[s].Captured(s))...)
	}
	for _, ref := range declared.Consumers {
		stream, consumer, _ := strings.Cut(ref, "/") // checked with the configuration
		u.Consumers = append(u.Consumers, identity.ConsumerRef{Stream: stream, Consumer: consumer})
	}
	return u
}

func texts(subjects []config.Subject) []string {
	var out []string
	for _, s := range subjects {
		out = append(out, string(s))
	}
	return out
}

// limits are those of an account. The server counts every copy, the file one.
func limits(l config.AccountLimits, nodes int) identity.Limits {
	return identity.Limits{
		DiskBytes:     copies(orUnlimited(l.Disk), nodes),
		MemoryBytes:   copies(orUnlimited(l.Memory), nodes),
		Streams:       orUnlimited(l.Streams),
		Consumers:     orUnlimited(l.Consumers),
		Connections:   plus(orUnlimited(l.Connections), ownConnections),
		Subscriptions: orUnlimited(l.Subscriptions),
		PayloadBytes:  orUnlimited(l.Payload),
	}
}

func copies(limit int64, n int) int64 {
	if limit == config.Unlimited || limit > math.MaxInt64/int64(n) {
		return config.Unlimited
	}
	return limit * int64(n)
}

func plus(limit, n int64) int64 {
	if limit == config.Unlimited {
		return limit
	}
	return limit + n
}

func orUnlimited[T ~int64](v *T) int64 {
	if v == nil {
		return config.Unlimited
	}
	return int64(*v)
}

// digest identifies the text of all files that were read, in their order.
func digest(cfg *config.Config) string {
	h := sha256.New()
	for _, f := range cfg.Files() {
		text := cfg.Source(f)
		fmt.Fprintf(h, "%d\n", len(text))
		h.Write(text)
	}
	return hex.EncodeToString(h.Sum(nil))[:12]
}
