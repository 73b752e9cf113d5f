// SPDX-License-Identifier: Apache-2.0

package join

import (
	"bytes"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

const (
	// tokenName and tokenVersion begin a token: people see what it is, and a program of
	// another version says so.
	tokenName    = "hfjoin"
	tokenVersion = "1-"
	// tokenSecret is in bytes: 128 bits can't be guessed over a network, or at all.
	tokenSecret = 16
	// tokenSum is of what stands before it, so that half a token is known as one.
	tokenSum = 8
	// longestToken bounds what is read, in characters.
	longestToken = 8 << 10
)

// Token lets one machine become a node of a cluster, once and until it expires.
type Token struct {
	// Addresses are where the node that made it answers, host:port.
	Addresses []string
	// CA is the fingerprint of the CA of the routes: the SHA-256 of its certificate.
	CA [sha256.Size]byte
	// Expires is for people: the node that made the token decides by its own clock.
	Expires time.Time
	// For is which of cluster.peers the machine is to be; empty where its addresses tell.
	For string

	secret [tokenSecret]byte
}

// NewToken makes a token with a secret of its own.
func NewToken(addresses []string, ca [sha256.Size]byte, expires time.Time, forPeer string) Token {
	t := Token{Addresses: addresses, CA: ca, Expires: expires.Truncate(time.Second), For: forPeer}
	_, _ = rand.Read(t.secret[:]) // never fails
	return t
}

// key is what the machine proves with that it knows the secret. The node keeps the
// public half, from which nobody makes the token.
func (t Token) key() (ed25519.PrivateKey, error) {
	seed, err := hkdf.Key(sha256.New, t.secret[:], nil, "holdfast invitation", ed25519.SeedSize)
	if err != nil {
		return nil, fmt.Errorf("derive the key of the token: %w", err)
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

// Public is how the node that made the token knows it again.
func (t Token) Public() (ed25519.PublicKey, error) {
	key, err := t.key()
	if err != nil {
		return nil, err
	}
	return ed25519.PublicKey(key[ed25519.SeedSize:]), nil
}

// Reveal is the token as one line of text.
func (t Token) Reveal() (string, error) {
	b := binary.BigEndian.AppendUint64(nil, uint64(t.Expires.Unix()))
	b = append(b, t.secret[:]...)
	b = append(b, t.CA[:]...)
	for _, s := range append([]string{t.For}, t.Addresses...) {
		if len(s) > 0xff {
			return "", fmt.Errorf("the address %q is too long for a token", s)
		}
		b = append(append(b, byte(len(s))), s...)
	}
	sum := sha256.Sum256(b)
	return tokenName + tokenVersion + base64.RawURLEncoding.EncodeToString(append(b, sum[:tokenSum]...)), nil
}

// ParseToken reads a token. White space in it does not count: lines get wrapped.
func ParseToken(text string) (Token, error) {
	text = strings.Join(strings.Fields(text), "")
	t, err := parseToken(text)
	if err != nil {
		hint := "copy the whole line that `holdfast cluster invite` printed; or make another there"
		return Token{}, diag.Fail(diag.CodeClusterToken, fmt.Errorf("read the token: %w", err), hint)
	}
	return t, nil
}

func parseToken(text string) (Token, error) {
	rest, ours := strings.CutPrefix(text, tokenName)
	coded, version := strings.CutPrefix(rest, tokenVersion)
	switch {
	case text == "":
		return Token{}, errors.New("there is none")
	case len(text) > longestToken:
		return Token{}, errors.New("it is too long for one")
	case !ours:
		return Token{}, fmt.Errorf("it is not one: they begin with %s%s", tokenName, tokenVersion)
	case !version:
		return Token{}, errors.New("it is one of another version of Holdfast, or damaged")
	}
	damaged := errors.New("it is not whole, or was changed on the way")
	b, err := base64.RawURLEncoding.Strict().DecodeString(coded)
	if err != nil || len(b) < tokenSum {
		return Token{}, damaged
	}
	b, sum := b[:len(b)-tokenSum], b[len(b)-tokenSum:]
	if want := sha256.Sum256(b); !bytes.Equal(sum, want[:tokenSum]) || len(b) < 8+tokenSecret+sha256.Size+1 {
		return Token{}, damaged
	}
	t := Token{Expires: time.Unix(int64(binary.BigEndian.Uint64(b)), 0)}
	b = b[8:]
	b = b[copy(t.secret[:], b):]
	b = b[copy(t.CA[:], b):]
	var texts []string
	for len(b) > 0 {
		n := int(b[0])
		if len(b) < 1+n {
			return Token{}, damaged
		}
		texts = append(texts, string(b[1:1+n]))
		b = b[1+n:]
	}
	t.For, t.Addresses = texts[0], texts[1:]
	if len(t.Addresses) == 0 {
		return Token{}, damaged
	}
	return t, nil
}

// The methods below are every way Go's printers and encoders look at a value.

func (t Token) String() string { return "token for " + strings.Join(t.Addresses, ", ") }

// GoString leaves the secret out.
func (t Token) GoString() string { return t.String() }

// LogValue leaves the secret out.
func (t Token) LogValue() slog.Value { return slog.StringValue(t.String()) }
