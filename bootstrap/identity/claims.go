// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/nats-io/jwt/v2"
)

// Limits of an account. Unlimited (-1) is no limit; 0 is refused, because the
// server would read it as no limit here and as nothing at all there, except in
// MemoryBytes, where it means that no stream may live in memory.
//
// Disk and memory count every replica, as the server does: where streams have
// three, the caller passes three times what one copy may hold. (The server's
// other kind, a limit for each replica count, would let an account fill each of
// them in turn, refuse every count that has none, and on one node set aside the
// sum of all of them, so that a 60% limit and its twin leave no room to start.)
type Limits struct {
	DiskBytes     int64 // all file streams together
	MemoryBytes   int64 // all memory streams together
	Streams       int64
	Consumers     int64 // of each stream
	Connections   int64 // all servers together, Holdfast's own in-process ones included
	Subscriptions int64 // of each connection
	PayloadBytes  int64
}

// NoLimit in a field of Limits means that there is none.
const NoLimit = int64(jwt.NoLimit)

// Unlimited returns limits that limit nothing.
func Unlimited() Limits {
	return Limits{NoLimit, NoLimit, NoLimit, NoLimit, NoLimit, NoLimit, NoLimit}
}

// limit is one limit: where the account's claims have it and what is wanted.
type limit struct {
	name string
	have *int64
	want int64
}

func limitsOf(c *jwt.AccountClaims, want Limits) []limit {
	l := &c.Limits
	return []limit{
		{"disk_bytes", &l.DiskStorage, want.DiskBytes},
		{"memory_bytes", &l.MemoryStorage, want.MemoryBytes},
		{"streams", &l.Streams, want.Streams},
		{"consumers", &l.Consumer, want.Consumers},
		{"connections", &l.Conn, want.Connections},
		{"subscriptions", &l.Subs, want.Subscriptions},
		{"payload_bytes", &l.Payload, want.PayloadBytes},
	}
}

func (l Limits) check() error {
	for _, f := range limitsOf(&jwt.AccountClaims{}, l) {
		if f.want < NoLimit || f.want == 0 && f.name != "memory_bytes" {
			return fmt.Errorf("limit %s is %d: want a positive number, or -1 for no limit", f.name, f.want)
		}
	}
	return nil
}

// setLimits makes the claims say l and returns what that changed.
func setLimits(c *jwt.AccountClaims, l Limits) []string {
	var changed []string
	for _, f := range limitsOf(c, l) {
		if *f.have != f.want {
			changed = append(changed, fmt.Sprintf("%s: %s -> %s", f.name, limitText(*f.have), limitText(f.want)))
			*f.have = f.want
		}
	}
	return changed
}

func limitText(n int64) string {
	if n == NoLimit {
		return "no limit"
	}
	return strconv.FormatInt(n, 10)
}

// setScope gives the holder of a signing key its permissions and returns what
// that changed, "" for nothing.
func setScope(c *jwt.AccountClaims, signer string, u User) (string, error) {
	allowed, err := permissions(u)
	if err != nil {
		return "", err
	}
	scope := jwt.NewUserScope()
	scope.Key = signer
	scope.Role = string(u.Role)
	scope.Description = u.Name
	allowed.Pub.Allow = led(allowed.Pub.Allow, c.Mappings)
	scope.Template.Permissions = allowed
	want, err := json.Marshal(scope)
	if err != nil {
		return "", fmt.Errorf("marshal permissions: %w", err)
	}
	have, err := json.Marshal(c.SigningKeys[signer])
	if err != nil {
		return "", fmt.Errorf("marshal permissions: %w", err)
	}
	if bytes.Equal(have, want) {
		return "", nil
	}
	what := "permissions updated"
	if before := roleOf(c, signer); before != u.Role {
		what = fmt.Sprintf("role: %s -> %s", before, u.Role)
	}
	c.SigningKeys.AddScopedSigner(scope)
	return what, nil
}

// roleOf returns the role of a signing key's holder, "" where there is none.
func roleOf(c *jwt.AccountClaims, signer string) Role {
	scope, ok := c.SigningKeys[signer].(*jwt.UserScope)
	if !ok {
		return ""
	}
	return Role(scope.Role)
}
