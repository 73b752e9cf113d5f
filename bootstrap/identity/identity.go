// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// The accounts of Holdfast's own. No account of the user's can have their names.
const (
	// SystemName is the system account: server administration, no JetStream.
	SystemName = "SYS"
	// InternalName is where Holdfast keeps its own streams.
	InternalName = "HOLDFAST"
)

// File is where the identity is kept and how it gets there. All fields are
// required.
type File struct {
	Path string
	// Write replaces the file in one step that survives a power cut. An
	// identity that servers already trust must not be lost with the page cache.
	Write func(path string, data []byte, perm fs.FileMode) error
	// Now dates tokens. It may say anything, 1970 too: no token expires. Only an
	// overlap of Rotate hangs on it.
	Now func() time.Time
}

// Identity is the keys and tokens of one node or cluster, always equal to what
// is on disk. It is safe for concurrent use, and printing it shows nothing.
type Identity struct {
	file     File
	shared   Shared     // nil on a single node
	taken    func()     // see Share
	at       uint64     // where in shared current is from; guarded by changing
	changing sync.Mutex // held from reading current to storing its successor
	current  atomic.Pointer[state]
}

// Open reads the identity. Where there is neither a file nor a store it makes
// a new one and saves it before it returns.
//
// stored lists the accounts that have messages: the names of the directories
// in JetStream's store. The file must know every one of them, because a new key
// for an account leaves the messages of the old one out of everybody's reach.
func Open(f File, stored []string) (*Identity, error) {
	s, err := f.load(len(stored) > 0)
	if errors.Is(err, fs.ErrNotExist) {
		if len(stored) > 0 {
			return nil, diag.FailPermanently(diag.CodeIdentityGone,
				fmt.Errorf("open identity %s: the file is gone, but the store has messages of %d accounts whose keys were in it", f.Path, len(stored)),
				hintRestore)
		}
		if s, err = newState(f.Now()); err != nil {
			return nil, fmt.Errorf("create identity: %w", err)
		}
		err = f.save(s)
	}
	if err != nil {
		return nil, err
	}
	id := &Identity{file: f}
	id.current.Store(s)
	if public, ok := s.stranger(stored); ok {
		return nil, diag.FailPermanently(diag.CodeIdentityGone,
			fmt.Errorf("open identity %s: the store has messages of account %s, which the file does not know", f.Path, public),
			hintRestore)
	}
	return id, nil
}

// Throwaway makes an identity that is kept nowhere, for checking what a server
// would say to a configuration.
func Throwaway() (*Identity, error) {
	s, err := newState(time.Now())
	if err != nil {
		return nil, fmt.Errorf("create identity: %w", err)
	}
	id := &Identity{file: File{Write: func(string, []byte, fs.FileMode) error { return nil }, Now: time.Now}}
	id.current.Store(s)
	return id, nil
}

// change saves what f makes of a copy of the state, in one write, and swaps it
// in. After an error, and when f says that it changed nothing, all is as it was.
func (id *Identity) change(f func(next *state, now time.Time) (bool, error)) error {
	id.changing.Lock()
	defer id.changing.Unlock()

	if err := id.catchUp(); err != nil {
		return err
	}
	next := id.current.Load().clone()
	changed, err := f(next, id.file.Now())
	if err != nil || !changed {
		return err
	}
	at, err := id.share(next)
	if err != nil {
		return err
	}
	if err := id.file.save(next); err != nil {
		return err // in a cluster it is taken with the next CatchUp
	}
	id.current.Store(next)
	id.at = at
	return nil
}

const hintRestore = "restore the newest identity.json from a backup of this node; a new identity could not read these messages"

// Trust is what a server needs to know to let users in. There is nothing
// secret in it.
type Trust struct {
	OperatorJWT   string
	SystemAccount string            // public key
	Preload       map[string]string // public key of every account, Holdfast's own included, to its token
}

// Trust returns what a server needs to know.
func (id *Identity) Trust() Trust {
	s := id.current.Load()
	t := Trust{OperatorJWT: s.operator.token, SystemAccount: s.system.public, Preload: map[string]string{}}
	for _, a := range s.all() {
		t.Preload[a.public] = a.token
	}
	return t
}

// Accounts returns the names of all accounts but Holdfast's own, sorted.
func (id *Identity) Accounts() []string {
	return id.current.Load().names()
}

// PublicKey returns the key by which servers know an account, Holdfast's own
// included.
func (id *Identity) PublicKey(account string) (string, bool) {
	all := id.current.Load().all()
	i := slices.IndexFunc(all, named(account))
	if i < 0 {
		return "", false
	}
	return all[i].public, true
}

// AccountName returns the name of the account with that key, Holdfast's own
// included.
func (id *Identity) AccountName(publicKey string) (string, bool) {
	all := id.current.Load().all()
	i := slices.IndexFunc(all, func(a account) bool { return a.public == publicKey })
	if i < 0 {
		return "", false
	}
	return all[i].name, true
}

func named(name string) func(account) bool {
	return func(a account) bool { return a.name == name }
}

// String returns "[redacted]".
func (id *Identity) String() string { return redacted }

// GoString returns "[redacted]".
func (id *Identity) GoString() string { return redacted }

// LogValue returns "[redacted]".
func (id *Identity) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText returns "[redacted]".
func (id *Identity) MarshalText() ([]byte, error) { return []byte(redacted), nil }
