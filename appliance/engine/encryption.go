// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"fmt"
	"log/slog"

	"github.com/nats-io/nats-server/v2/server"
)

// Encryption says how what is stored is encrypted, and was before. With a key and no
// PreviousKey nothing but that key is tried. A PreviousKey alone decrypts the store.
type Encryption struct {
	// Cipher is "" for that of the store; a new one gets CipherAES.
	Cipher           Cipher
	Key, PreviousKey Key
	// Place is where the configuration speaks of it, for errors.
	Place string
	// Free returns what is free on the store's volume, in bytes; nil: nobody knows.
	Free func() (uint64, error)
}

// Key is a key for stored messages, as text. It can't print itself.
type Key struct {
	// text is behind a pointer so that printing a struct that holds a Key shows an
	// address at most.
	text *string
}

const redacted = "[redacted]"

// NewKey returns a key; an empty text is none.
func NewKey(text string) Key {
	if text == "" {
		return Key{}
	}
	return Key{&text}
}

// IsSet reports whether there is a key.
func (k Key) IsSet() bool { return k.text != nil }

func (k Key) reveal() string {
	if k.text == nil {
		return ""
	}
	return *k.text
}

// String returns "[redacted]", as fmt asks for it.
func (Key) String() string { return redacted }

// GoString returns "[redacted]", as %#v asks for it.
func (Key) GoString() string { return redacted }

// LogValue returns "[redacted]", as slog asks for it.
func (Key) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText returns "[redacted]", as encoders ask for it.
func (Key) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// ring is the keyring of a key; nil without one.
func (e Encryption) ring(k Key, c Cipher) *keyring {
	if !k.IsSet() {
		return nil
	}
	return &keyring{cipher: c, key: k.reveal()}
}

// ring opens what the running server has stored; nil when that is not encrypted.
func (e *Engine) ring() *keyring {
	enc := e.settings.Encryption
	return enc.ring(enc.Key, enc.Cipher)
}

// settle fills in the cipher.
func (e Encryption) settle(storeDir string) Encryption {
	if e.Cipher == "" {
		e.Cipher = storeCipher(storeDir)
	}
	return e
}

// setEncryption hands the key to the server in memory. It gets the present one only:
// what it does by itself with a key before does not survive a crash (see unlock).
func setEncryption(opts *server.Options, e Encryption) {
	if !e.Key.IsSet() {
		return
	}
	opts.JetStreamKey = e.Key.reveal()
	opts.JetStreamCipher = map[Cipher]server.StoreCipher{CipherAES: server.AES, CipherChaCha: server.ChaCha}[e.Cipher]
}

func (e Encryption) validate() error {
	switch e.Cipher {
	case "", CipherAES, CipherChaCha:
		return nil
	}
	return fmt.Errorf("the cipher %q is neither %s nor %s", e.Cipher, CipherAES, CipherChaCha)
}

// EncryptionState is how the store is encrypted.
type EncryptionState struct {
	// Cipher is "" for a store that is not encrypted.
	Cipher Cipher
	// Keys counts the keys of streams, consumers and blocks at the start. All of them are
	// under the present key then.
	Keys int
	// Rewrapped are those of them that were under the key before; Encrypted and Decrypted
	// count the streams that the start converted.
	Rewrapped, Encrypted, Decrypted int
	// Previous: a key before the present one is in the configuration. It has done its work
	// when the engine runs.
	Previous bool
}

// Encryption returns how the store is encrypted, known when the start has looked at it.
func (e *Engine) Encryption() EncryptionState {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.encryption
}
