// SPDX-License-Identifier: Apache-2.0

package join

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

const (
	// mostOpen bounds the tokens that could be used at a time.
	mostOpen = 100
	// remembered is how long a node can still say of a token that it has expired.
	remembered = 30 * 24 * time.Hour
)

// Ledger is what a node remembers of the tokens that it made: no secret, but by what it
// knows them again, and which machine used them. It is a file, so that a token that was
// used stays so.
type Ledger struct {
	Path  string
	Write func(path string, data []byte, perm fs.FileMode) error
	Now   func() time.Time

	mu sync.Mutex
}

// entry is one token.
type entry struct {
	Key     ed25519.PublicKey `json:"key"`
	For     string            `json:"for,omitempty"`
	Made    time.Time         `json:"made"`
	Expires time.Time         `json:"expires"`
	// Machine is the key of the machine that the token is used by: it may ask again until
	// the token expires, and nobody else may. Node and From are its name and its address.
	Machine ed25519.PublicKey `json:"machine,omitempty"`
	Node    string            `json:"node,omitempty"`
	From    string            `json:"from,omitempty"`
	Used    *time.Time        `json:"used,omitempty"`
}

func (l *Ledger) read() ([]entry, error) {
	data, err := os.ReadFile(l.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var entries []entry
	if err == nil {
		err = json.Unmarshal(data, &entries)
	}
	if err != nil {
		return nil, diag.Fail(diag.CodeClusterToken, fmt.Errorf("read which tokens were made, in %s: %w", l.Path, err),
			"remove the file: all tokens end with it, and `holdfast cluster invite` makes new ones")
	}
	return entries, nil
}

func (l *Ledger) save(entries []entry) error {
	data, err := json.MarshalIndent(entries, "", "  ")
	if err != nil {
		return fmt.Errorf("encode which tokens were made: %w", err)
	}
	return l.Write(l.Path, append(data, '\n'), 0o600)
}

// Add remembers a token before it is given to anybody.
func (l *Ledger) Add(t Token) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	entries, err := l.read()
	if err != nil {
		return err
	}
	now := l.Now()
	entries = slices.DeleteFunc(entries, func(e entry) bool { return now.Sub(e.Expires) > remembered })
	open := 0
	for _, e := range entries {
		if now.Before(e.Expires) {
			open++
		}
	}
	if open >= mostOpen {
		return diag.Fail(diag.CodeClusterToken, fmt.Errorf("make a token: there are %d that have not expired", open),
			"wait until some have; removing "+l.Path+" ends all of them")
	}
	key, err := t.Public()
	if err != nil {
		return err
	}
	return l.save(append(entries, entry{Key: key, For: t.For, Made: now, Expires: t.Expires}))
}

// Refusal says what is wrong with a token.
type Refusal struct {
	Reason Reason
	What   string
}

// Use binds a token to the machine that shows it. It is on the disk before Use returns:
// whoever is given something after that is the only one. The same machine may come
// again, for it may have been killed with the answer unread.
func (l *Ledger) Use(c Claim) (forPeer string, refused *Refusal, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	entries, err := l.read()
	if err != nil {
		return "", nil, err
	}
	i := slices.IndexFunc(entries, func(e entry) bool { return bytes.Equal(e.Key, c.Token) })
	if i < 0 {
		return "", &Refusal{ReasonUnknown, "this node knows no such token"}, nil
	}
	e := &entries[i]
	switch now := l.Now(); {
	case e.Machine != nil && !bytes.Equal(e.Machine, c.Machine):
		return "", &Refusal{ReasonUsed, fmt.Sprintf("the token was used at %s, by %s", e.Used.Format(time.RFC3339), e.who())}, nil
	case !now.Before(e.Expires):
		return "", &Refusal{ReasonExpired, "the token expired at " + e.Expires.Format(time.RFC3339)}, nil
	case e.Machine != nil:
		return e.For, nil, nil
	default:
		e.Machine, e.Node, e.From, e.Used = c.Machine, c.Node, c.From, &now
	}
	if err := l.save(entries); err != nil {
		return "", nil, err
	}
	return e.For, nil, nil
}

func (e *entry) who() string {
	if e.Node == "" {
		return "the machine at " + e.From
	}
	return fmt.Sprintf("node %q at %s", e.Node, e.From) // it chose its name itself
}
