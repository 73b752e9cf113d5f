// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"regexp"
	"strings"
)

// keyNames turns the public keys of accounts back into their names.
type keyNames struct {
	lookup func(publicKey string) string // may be nil
}

// name returns the name of an account, or its key when nobody knows it.
func (n keyNames) name(publicKey string) string {
	if n.lookup == nil {
		return publicKey
	}
	return cmp.Or(n.lookup(publicKey), publicKey)
}

// translate replaces every account key in a text.
func (n keyNames) translate(text string) string {
	// Most texts have no key, and this is on the path of every log line.
	if n.lookup == nil || len(text) < 56 {
		return text
	}
	return regexp.MustCompile(`\bA[A-Z2-7]{55}\b`).ReplaceAllStringFunc(text, n.name)
}

// issuedAt reads the time out of a JWT, in seconds; 0 when there is none. The
// server has checked the signature.
func issuedAt(token string) int64 {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return 0
	}
	body, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return 0
	}
	var claims struct {
		IssuedAt int64 `json:"iat"`
	}
	if json.Unmarshal(body, &claims) != nil {
		return 0
	}
	return claims.IssuedAt
}
