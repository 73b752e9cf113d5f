// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats-server/v2/server"
)

// Brake stops publishing to the file streams of accounts, or lets it go on. What is
// published is refused with JetStream's error 10002; memory streams, consumers,
// acknowledgements, purges and removals go on. Streams can be neither made nor
// updated meanwhile (10047). The brake is forgotten when an account's JWT changes and
// when JetStream is started again: call it again while it is to hold.
//
// One message to an account that has none passes: the server does not compare an
// account without usage.
//
// The accounts are given by their JWTs: those that the server keeps are on the disk,
// which may not be readable.
func (e *Engine) Brake(on bool, tokens []string) error {
	e.log.braked.Store(on)
	for _, token := range tokens {
		if err := e.brake(on, token); err != nil {
			return err
		}
	}
	return nil
}

func (e *Engine) brake(on bool, token string) error {
	claims, err := jwt.DecodeAccountClaims(token)
	if err != nil {
		return fmt.Errorf("read the limits of an account: %w", err)
	}
	acc, err := e.server.LookupAccount(claims.Subject)
	if err == nil && acc.JetStreamEnabled() {
		err = setLimits(acc, accountLimits(claims, on))
	}
	if err != nil {
		return fmt.Errorf("set the disk limit of account %q: %w", e.log.names.name(claims.Subject), err)
	}
	return nil
}

// smallestStep is where setLimits gives up, in bytes.
const smallestStep = 64 << 10

// setLimits sets the limits of an account. What a limit is raised by the server compares
// with what no stream has set aside of the whole store, though the account's streams are
// what is to go on with it; raised in steps that are smaller than that, the limit comes to
// stand where it stood.
func setLimits(acc *server.Account, want server.JetStreamAccountLimits) error {
	set := func(disk int64) error {
		l := want
		l.MaxStore = disk
		return acc.UpdateJetStreamLimits(map[string]server.JetStreamAccountLimits{"": l})
	}
	err := set(want.MaxStore)
	for at, step := int64(0), want.MaxStore/2; err != nil && at < want.MaxStore && step >= smallestStep; {
		next := min(at+step, want.MaxStore)
		if set(next) != nil {
			step /= 2
			continue
		}
		if at = next; at == want.MaxStore {
			err = nil
		}
	}
	return err
}

// accountLimits are those of an account's JWT, as the server reads them, with no room
// for files when the brake is on.
func accountLimits(claims *jwt.AccountClaims, braked bool) server.JetStreamAccountLimits {
	l := claims.Limits.JetStreamLimits
	out := server.JetStreamAccountLimits{
		MaxMemory:            l.MemoryStorage,
		MaxStore:             l.DiskStorage,
		MaxStreams:           int(l.Streams),
		MaxConsumers:         int(l.Consumer),
		MemoryMaxStreamBytes: orUnlimited(l.MemoryMaxStreamBytes),
		StoreMaxStreamBytes:  orUnlimited(l.DiskMaxStreamBytes),
		MaxBytesRequired:     l.MaxBytesRequired,
		MaxAckPending:        int(orUnlimited(l.MaxAckPending)),
	}
	if braked {
		out.MaxStore = 0
	}
	return out
}

// orUnlimited is how the server reads limits that may be left out.
func orUnlimited(v int64) int64 {
	if v <= 0 {
		return -1
	}
	return v
}
