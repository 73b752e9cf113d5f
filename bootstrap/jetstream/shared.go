// SPDX-License-Identifier: Apache-2.0

package jetstream

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

const (
	sharedStream  = "IDENTITY"
	sharedSubject = "identity"
	// sharedKept is how many identities are kept: the latest counts, the others are for
	// somebody who looks for what happened.
	sharedKept = 8
)

// Shared keeps one text, the identity of a cluster, in a stream that users don't see,
// sealed with the cluster's secret.
type Shared struct {
	stream ownStream
	seal   cipher.AEAD
}

// Shared returns the text that is kept in the account, with that many replicas.
func (c *Client) Shared(account string, replicas int, secret []byte) (*Shared, error) {
	key, err := hkdf.Key(sha256.New, secret, nil, "holdfast shared identity", 32)
	if err != nil {
		return nil, fmt.Errorf("make the key of the shared identity: %w", err)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("make the key of the shared identity: %w", err)
	}
	seal, err := cipher.NewGCM(block)
	if err != nil {
		return nil, fmt.Errorf("make the key of the shared identity: %w", err)
	}
	return &Shared{stream: ownStream{client: c, account: account, name: sharedStream, replicas: replicas}, seal: seal}, nil
}

// Load returns the latest text and its place; the place 0 when there is none.
func (s *Shared) Load(ctx context.Context) ([]byte, uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	at, sealed, err := s.stream.last(ctx, sharedSubject)
	if err != nil || at == 0 {
		return nil, 0, err
	}
	n := s.seal.NonceSize()
	if len(sealed) < n {
		return nil, 0, errors.New("the shared identity is cut off")
	}
	data, err := s.seal.Open(nil, sealed[:n], sealed[n:], nil)
	if err != nil {
		return nil, 0, diag.Fail(diag.CodeClusterSecret, fmt.Errorf("open the shared identity: %w", err),
			"it was sealed with another secret: write the same into the file of cluster.secret on every node")
	}
	return data, at, nil
}

// Store puts a text in place of that at the place after, 0 for none, and returns its
// own place. When another one came in between, the error has CodePlanMoved.
func (s *Shared) Store(ctx context.Context, data []byte, after uint64) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	err := s.stream.ensure(ctx, map[string]any{
		"subjects": []string{sharedSubject}, "description": "who may connect, sealed", "storage": "file", "retention": "limits",
		"discard": "old", "max_msgs": sharedKept, "allow_direct": false,
	})
	if err != nil {
		return 0, err
	}
	nonce := make([]byte, s.seal.NonceSize())
	if _, err := rand.Read(nonce); err != nil {
		return 0, fmt.Errorf("seal: %w", err)
	}
	at, err := s.stream.publish(ctx, sharedSubject, s.seal.Seal(nonce, nonce, data, nil), expectLast(after))
	if code(err) == codeWrongLastSeq {
		return 0, diag.Fail(diag.CodePlanMoved, errors.New("another node changed it in the meantime"), "try again")
	}
	return at, err
}

// Watch calls changed when a node stored a text, and may do so without one. It ends
// with the client's connection, and when the returned function is called.
func (s *Shared) Watch(changed func()) (func(), error) {
	nc, err := s.stream.client.conn(s.stream.account)
	if err != nil {
		return nil, err
	}
	sub, err := nc.Subscribe(sharedSubject, func(*nats.Msg) { changed() })
	if err != nil {
		return nil, fmt.Errorf("watch the shared identity: %w", err)
	}
	return func() { _ = sub.Unsubscribe() }, nil // fails only with the connection
}
