// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"fmt"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// Shared is where the nodes of a cluster keep the identity together. What is in it is
// the identity, and the file of each node a copy.
type Shared interface {
	// Load returns the identity and its place, 0 when nobody has put one there yet.
	Load() (data []byte, at uint64, err error)
	// Store puts another one there, when the one of the place after is still the latest,
	// and returns its place. It returns when most nodes have it.
	Store(data []byte, after uint64) (at uint64, err error)
}

// Share makes the identity that of a cluster, as of the next change or CatchUp. taken is
// called whenever what another node changed was taken, and must not call back.
func (id *Identity) Share(s Shared, taken func()) {
	id.changing.Lock()
	defer id.changing.Unlock()
	id.shared, id.taken = s, taken
}

// CatchUp takes what another node changed. It is on disk when it returns.
func (id *Identity) CatchUp() error {
	id.changing.Lock()
	defer id.changing.Unlock()
	return id.catchUp()
}

func (id *Identity) catchUp() error {
	if id.shared == nil {
		return nil
	}
	data, at, err := id.shared.Load()
	if err != nil {
		return fmt.Errorf("read the identity of the cluster: %w", err)
	}
	if at == 0 || at == id.at {
		return nil
	}
	next, err := decode(data)
	if err != nil {
		return fmt.Errorf("read the identity of the cluster: %w", err)
	}
	current := id.current.Load()
	if next.operator.token != current.operator.token {
		return diag.FailPermanently(diag.CodeClusterJoin, fmt.Errorf("read the identity of the cluster: it is another one than in %s", id.file.Path),
			"this data directory belongs to another cluster: start the node with an empty one, or with the peers it had")
	}
	if !same(current, next) {
		if err := id.file.save(next); err != nil {
			return err
		}
		id.current.Store(next)
		id.taken()
	}
	id.at = at
	return nil
}

// Push puts the identity where the other nodes find it, when nobody has put one there.
func (id *Identity) Push() error {
	id.changing.Lock()
	defer id.changing.Unlock()
	if err := id.catchUp(); err != nil || id.at != 0 {
		return err
	}
	at, err := id.share(id.current.Load())
	id.at = at
	return err
}

// share puts a changed identity where the other nodes find it, and returns its place.
func (id *Identity) share(next *state) (uint64, error) {
	if id.shared == nil {
		return 0, nil
	}
	data, err := encode(next)
	if err != nil {
		return 0, err
	}
	at, err := id.shared.Store(data, id.at)
	if err != nil {
		return 0, fmt.Errorf("share the identity with the cluster: %w", err)
	}
	return at, nil
}

// Operator is the public key of the operator: one for each node or cluster, for ever.
func (id *Identity) Operator() (string, error) { return publicOf(id.current.Load().operator.seed) }
