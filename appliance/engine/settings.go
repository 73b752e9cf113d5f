// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Settings is everything that the engine needs to know.
type Settings struct {
	// NodeName is the server's name in a cluster. It must never change: a
	// renamed node is a new Raft peer.
	NodeName string
	// Version is Holdfast's version; it shows in the server's metadata.
	Version string

	ClientHost string
	ClientPort int // 0: the kernel chooses
	// TLS is for the client port; nil: plain. It should answer with
	// GetCertificate or GetConfigForClient: what they return counts for the next
	// handshake, without a reload. In-process connections stay plain.
	TLS *tls.Config

	// StoreDir is the parent of the server's own jetstream directory.
	StoreDir string
	// ResolverDir holds the account JWTs. The server writes to it.
	ResolverDir string

	// MaxStoreBytes and MaxMemoryBytes are always said: left alone, the server
	// takes three quarters of the space that is free at each start, which
	// shrinks as the disk fills.
	MaxStoreBytes  int64
	MaxMemoryBytes int64

	// SyncAlways is strict durability: fsync before the ack. SyncInterval
	// counts only without it.
	SyncAlways   bool
	SyncInterval time.Duration

	// Encryption is past the configuration parser, too: the text of it has no secret.
	Encryption Encryption

	Domain string
	Tags   []string

	OperatorJWT   string
	SystemAccount string            // public key; one of Preload
	Preload       map[string]string // public key to account JWT

	// Cluster, if not nil, makes the server one of several.
	Cluster *ClusterSettings

	// Extra are the keys of the nats: block.
	Extra []ExtraKey

	// LameDuckDuration is how long Drain takes to send clients away, and
	// LameDuckGrace how much of it passes before the first goes. They are set
	// past the configuration parser, which refuses less than 30 s.
	LameDuckDuration time.Duration
	LameDuckGrace    time.Duration
}

// ExtraKey is one key of the nats: block. Value is a string as it stands in the
// file, an integer, a boolean or a time.Duration.
type ExtraKey struct {
	Name  string
	Value any
}

// validate finds what would make the server do something silently: pick a
// directory, a limit or a sync mode of its own.
func (s Settings) validate() error {
	var missing []string
	need := func(ok bool, name string) {
		if !ok {
			missing = append(missing, name)
		}
	}
	need(s.NodeName != "", "a node name")
	need(s.StoreDir != "", "a store directory")
	need(s.ResolverDir != "", "a resolver directory")
	need(s.MaxStoreBytes > 0, "a storage limit")
	need(s.MaxMemoryBytes >= 0, "a memory limit")
	need(s.SyncAlways || s.SyncInterval > 0, "a sync interval")
	need(s.OperatorJWT != "", "an operator")
	need(s.Preload[s.SystemAccount] != "", "a system account")
	need(s.TLS == nil || hasCertificate(s.TLS), "a certificate for TLS")
	if len(missing) > 0 {
		return fmt.Errorf("needs %s", strings.Join(missing, ", "))
	}
	if err := s.Encryption.validate(); err != nil {
		return err
	}
	if s.LameDuckDuration != 0 && s.LameDuckGrace >= s.LameDuckDuration {
		return errors.New("the lame duck grace must be shorter than the lame duck duration")
	}
	if err := s.Cluster.validate(); err != nil {
		return err
	}
	seen := make(map[string]bool)
	for _, k := range s.Extra {
		name := strings.ToLower(k.Name)
		if seen[name] {
			return fmt.Errorf("nats.%s: set twice", name)
		}
		seen[name] = true
		if _, err := renderExtra(k); err != nil {
			return err
		}
	}
	return nil
}

func hasCertificate(c *tls.Config) bool {
	return len(c.Certificates) > 0 || c.GetCertificate != nil || c.GetConfigForClient != nil
}
