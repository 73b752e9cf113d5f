// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"regexp"
	"strings"
)

// Names turns public keys back into names, and subjects into those that clients used,
// for log lines, errors and Refusals. Each function may be nil, and those for keys
// return "" for one that they do not know. They are called from many goroutines and
// must not call the engine.
type Names struct {
	Account func(publicKey string) string
	// User takes the name of the account that the user belongs to.
	User func(account, publicKey string) string
	// Subjects takes a text in which the server may name a subject that a mapping led to,
	// and returns it with the subject that the client published to.
	Subjects func(text string) string
}

// name returns the name of an account, or its key when nobody knows it.
func (n Names) name(publicKey string) string {
	if n.Account == nil {
		return publicKey
	}
	return cmp.Or(n.Account(publicKey), publicKey)
}

// user returns the name of a user, or its key when nobody knows it.
func (n Names) user(account, publicKey string) string {
	if n.User == nil || publicKey == "" {
		return publicKey
	}
	return cmp.Or(n.User(account, publicKey), publicKey)
}

// published returns a text with the subjects that clients used.
func (n Names) published(text string) string {
	if n.Subjects == nil {
		return text
	}
	return n.Subjects(text)
}

// translate replaces every account key in a text, and every subject that is not the
// client's own.
func (n Names) translate(text string) string {
	text = n.published(text)
	// Most texts have no key, and this is on the path of every log line.
	if n.Account == nil || len(text) < 56 {
		return text
	}
	// In a path the key stays, for that is what the directory is called.
	return accountKey.ReplaceAllStringFunc(text, func(found string) string {
		if strings.HasPrefix(found, "/") {
			return found
		}
		return n.name(found)
	})
}

var accountKey = regexp.MustCompile(`/?\bA[A-Z2-7]{55}\b`)

// claims is what the engine reads out of JWTs.
type claims struct {
	IssuedAt int64  `json:"iat"` // seconds
	Expires  int64  `json:"exp"` // seconds; 0: never
	Subject  string `json:"sub"`
	Issuer   string `json:"iss"`
	NATS     struct {
		// IssuerAccount is set when a signing key of the account is the issuer.
		IssuerAccount string `json:"issuer_account"`
	} `json:"nats"`
}

// readClaims does not check the signature. The claims are empty when there are
// none.
func readClaims(token string) claims {
	var c claims
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return c
	}
	body, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || json.Unmarshal(body, &c) != nil {
		return claims{}
	}
	return c
}

// issuedAt reads the time out of a JWT that the server has checked.
func issuedAt(token string) int64 { return readClaims(token).IssuedAt }
