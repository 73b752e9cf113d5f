// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"

	"github.com/nats-io/nkeys"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// Export returns the whole identity as a file that Restore reads. Whoever has it
// is everybody here.
func (id *Identity) Export() ([]byte, error) {
	return encode(id.current.Load())
}

// Restore puts an exported identity, or the file of one, in its place, while no
// node runs on it. It checks what Open checks, stored included. An identity that
// is there and differs is replaced only with force: the accounts made since the
// export would be gone with it, and users revoked since would be let in again.
func Restore(f File, data []byte, stored []string, force bool) error {
	s, err := decode(data)
	if err != nil {
		return diag.Fail(diag.CodeIdentity, fmt.Errorf("restore identity: %w", err), "take another copy of identity.json, or the version of holdfast that wrote this one")
	}
	if public, ok := s.stranger(stored); ok {
		return diag.Fail(diag.CodeIdentityGone,
			fmt.Errorf("restore identity: the store has messages of account %s, which this copy does not know", public),
			"take a newer copy, or one of this node: with this one nobody could read these messages")
	}
	old, err := f.load(true)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err == nil && same(old, s):
		return nil
	case !force:
		return diag.Fail(diag.CodeExists, fmt.Errorf("restore identity %s: there is another identity already", f.Path),
			"keep a copy of it and use --force; accounts made since the export are then gone, and users revoked since are let in again")
	}
	return f.save(s)
}

func same(a, b *state) bool {
	x, errX := encode(a)
	y, errY := encode(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// stranger returns an account that has messages and is not in the state. stored
// may hold other names.
func (s *state) stranger(stored []string) (string, bool) {
	known := map[string]bool{}
	for _, a := range s.all() {
		known[a.public] = true
	}
	for _, public := range stored {
		if !known[public] && nkeys.IsValidPublicAccountKey(public) {
			return public, true
		}
	}
	return "", false
}
