// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"golang.org/x/crypto/chacha20"
	"golang.org/x/crypto/chacha20poly1305"
)

// How nats-server 2.15.3 encrypts what it stores (server/filestore.go, jetstream.go);
// that this reads what the server writes, and the other way round, is pinned by tests.
//
// Each stream, each consumer and each block of messages has a seed of its own. The seed
// is in a file beside it, sealed by a key that is made of the configured one, the
// account and the object's name: nonce, sealed seed. Metadata, the position of a
// consumer and the index of a stream are sealed by the seed. A block is XORed with the
// key stream of its seed and of the nonce of its key file, so that it can grow at its
// end; what is in it has checksums of its own.

// Cipher is what the server encrypts with.
type Cipher string

// The ciphers of the server.
const (
	CipherAES    Cipher = "aes"
	CipherChaCha Cipher = "chacha"
)

const (
	seedSize   = 32
	sealedMore = 16 // bytes that sealing adds, besides the nonce
)

func (c Cipher) nonceSize() int {
	if c == CipherChaCha {
		return chacha20poly1305.NonceSizeX
	}
	return aes.BlockSize
}

// keyFileSize is that of a file with a sealed seed. It tells which cipher made it.
func (c Cipher) keyFileSize() int { return c.nonceSize() + seedSize + sealedMore }

func cipherOf(keyFileSize int) (Cipher, bool) {
	for _, c := range []Cipher{CipherAES, CipherChaCha} {
		if keyFileSize == c.keyFileSize() {
			return c, true
		}
	}
	return "", false
}

func (c Cipher) aead(key []byte) (cipher.AEAD, error) {
	if c == CipherChaCha {
		return chacha20poly1305.NewX(key)
	}
	b, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithNonceSize(b, b.BlockSize())
}

func (c Cipher) stream(seed, nonce []byte) (cipher.Stream, error) {
	if c == CipherChaCha {
		return chacha20.NewUnauthenticatedCipher(seed, nonce)
	}
	b, err := aes.NewCipher(seed)
	if err != nil {
		return nil, err
	}
	return cipher.NewCTR(b, nonce), nil
}

// keyring opens and seals seeds with one configured key. A nil keyring is that of a
// store that is not encrypted.
type keyring struct {
	cipher Cipher // of what it makes; it opens what either made
	key    string
}

// id tells keys apart and tells nothing else about them.
func (k *keyring) id() string {
	h := hmac.New(sha256.New, []byte(k.key))
	_, _ = h.Write([]byte("holdfast: which key this is")) // a hash takes everything
	return hex.EncodeToString(h.Sum(nil)[:8])
}

func (k *keyring) wrapping(c Cipher, account, name string) (cipher.AEAD, error) {
	h := hmac.New(sha256.New, []byte(k.key))
	_, _ = h.Write([]byte(account + name)) // a hash takes everything
	return c.aead(h.Sum(nil))
}

// objectKey is the seed of a stream, a consumer or a block.
type objectKey struct {
	cipher      Cipher
	seed, nonce []byte
}

// open opens the content of a key file; false when this is not its key.
func (k *keyring) open(account, name string, file []byte) (*objectKey, bool) {
	c, ok := cipherOf(len(file))
	if k == nil || !ok {
		return nil, false
	}
	box, err := k.wrapping(c, account, name)
	if err != nil {
		return nil, false
	}
	n := c.nonceSize()
	seed, err := box.Open(nil, file[:n], file[n:], nil)
	if err != nil {
		return nil, false
	}
	return &objectKey{cipher: c, seed: seed, nonce: file[:n:n]}, true
}

// seal is the content of a key file. The nonce stays, for the block goes by it. It is
// sealed with another key than before or is the same text as before, so no nonce is used
// twice.
func (k *keyring) seal(account, name string, o *objectKey) ([]byte, error) {
	box, err := k.wrapping(o.cipher, account, name)
	if err != nil {
		return nil, fmt.Errorf("seal a key: %w", err)
	}
	return box.Seal(append([]byte(nil), o.nonce...), o.nonce, o.seed, nil), nil
}

// fresh makes a seed.
func (k *keyring) fresh() *objectKey {
	o := &objectKey{cipher: k.cipher, seed: make([]byte, seedSize), nonce: make([]byte, k.cipher.nonceSize())}
	_, _ = rand.Read(o.seed) // never fails
	_, _ = rand.Read(o.nonce)
	return o
}

// crypt encrypts or decrypts a block into a copy. No key leaves it as it is.
func (o *objectKey) crypt(buf []byte) ([]byte, error) {
	if o == nil {
		return buf, nil
	}
	s, err := o.cipher.stream(o.seed, o.nonce)
	if err != nil {
		return nil, fmt.Errorf("encrypt a block: %w", err)
	}
	out := make([]byte, len(buf))
	s.XORKeyStream(out, buf)
	return out, nil
}

// errNotOpened is that a text was not sealed by a key, or is not whole.
var errNotOpened = errors.New("it can't be decrypted")

// unbox opens metadata, a position or an index. No key leaves it as it is.
func (o *objectKey) unbox(buf []byte) ([]byte, error) {
	if o == nil {
		return buf, nil
	}
	box, err := o.cipher.aead(o.seed)
	if err != nil {
		return nil, err
	}
	n := o.cipher.nonceSize()
	if len(buf) < n+sealedMore {
		return nil, errNotOpened
	}
	plain, err := box.Open(nil, buf[:n], buf[n:], nil)
	if err != nil {
		return nil, errNotOpened
	}
	return plain, nil
}

// box seals what unbox opens, with a new nonce.
func (o *objectKey) box(plain []byte) ([]byte, error) {
	if o == nil {
		return plain, nil
	}
	box, err := o.cipher.aead(o.seed)
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, o.cipher.nonceSize())
	_, _ = rand.Read(nonce) // never fails
	return box.Seal(nonce, nonce, plain, nil), nil
}
