// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"crypto/sha512"
	"encoding/base32"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nkeys"
)

// sign encodes claims as the jwt package does, but dates them itself. Servers
// keep the token with the later date, and one of the same second counts as the
// same token, so a date must be later than the last one (claims.IssuedAt, when
// they were decoded) even when the clock went back or two changes share a second.
func sign(claims jwt.Claims, seed Secret, now time.Time) (string, error) {
	kp, err := nkeys.FromSeed([]byte(seed.Reveal()))
	if err != nil {
		return "", fmt.Errorf("read signing key: %w", err)
	}
	data := claims.Claims()
	// At least 1: a date of 0 is left out of the token.
	issuedAt := max(now.Unix(), data.IssuedAt+1, 1)

	// The library checks the kind of key and fills in type, version and issuer.
	token, err := claims.Encode(kp)
	if err != nil {
		return "", err
	}
	header, _, _ := strings.Cut(token, ".")

	data.IssuedAt = issuedAt
	data.ID = ""
	plain, err := json.Marshal(data)
	if err != nil {
		return "", fmt.Errorf("marshal claims: %w", err)
	}
	sum := sha512.Sum512_256(plain)
	data.ID = base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(sum[:])
	body, err := json.Marshal(claims)
	if err != nil {
		return "", fmt.Errorf("marshal claims: %w", err)
	}
	signed := header + "." + base64.RawURLEncoding.EncodeToString(body)
	sig, err := kp.Sign([]byte(signed))
	if err != nil {
		return "", fmt.Errorf("sign claims: %w", err)
	}
	return signed + "." + base64.RawURLEncoding.EncodeToString(sig), nil
}

func seedOf(kp nkeys.KeyPair) (Secret, error) {
	seed, err := kp.Seed()
	if err != nil {
		return Secret{}, fmt.Errorf("read seed: %w", err)
	}
	return newSecret(seed), nil
}

func publicOf(seed Secret) (string, error) {
	kp, err := nkeys.FromSeed([]byte(seed.Reveal()))
	if err != nil {
		return "", fmt.Errorf("read key: %w", err)
	}
	return kp.PublicKey()
}
