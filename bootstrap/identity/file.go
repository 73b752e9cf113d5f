// SPDX-License-Identifier: Apache-2.0

package identity

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// format is the version of the file. A later one is refused: what it holds
// beyond what is known here would be lost at the next save. The earlier one is
// read, and becomes this one at the next save: in format 1 every user has its
// seed here, and nothing but the tokens says more about it.
const format = 2

const note = "Written by Holdfast: the private keys of this node. Do not edit it (the checksum would no longer match), do not share it, keep it in your backups."

// envelope is the file. The checksum is of the identity without white space.
type envelope struct {
	Format   int             `json:"format"`
	Note     string          `json:"note"`
	SHA256   string          `json:"sha256"`
	Identity json.RawMessage `json:"identity"`
}

type fileState struct {
	Operator fileOperator  `json:"operator"`
	System   fileAccount   `json:"system"`
	Internal fileAccount   `json:"internal"`
	Accounts []fileAccount `json:"accounts"`
}

type fileOperator struct {
	Seed  fileSeed `json:"seed"`
	Token string   `json:"token"`
}

type fileAccount struct {
	Name   string               `json:"name"`
	Seed   fileSeed             `json:"seed"`
	Token  string               `json:"token"`
	Users  []fileUser           `json:"users,omitempty"`
	Barred map[string]time.Time `json:"barred,omitempty"`
}

type fileUser struct {
	Name      string         `json:"name"`
	Key       string         `json:"key"`
	Seed      fileSeed       `json:"seed,omitempty"`
	Signer    fileSeed       `json:"signer"`
	Token     string         `json:"token"`
	Own       bool           `json:"own,omitempty"`
	Created   time.Time      `json:"created,omitzero"`
	Rotated   time.Time      `json:"rotated,omitzero"`
	HandedOut time.Time      `json:"handed_out,omitzero"`
	Retiring  []fileRetiring `json:"retiring,omitempty"`
}

type fileRetiring struct {
	Key    string    `json:"key"`
	Issued int64     `json:"issued"`
	Until  time.Time `json:"until"`
}

// fileSeed is the one form of a seed that encoding/json writes out.
type fileSeed string

func (fileSeed) String() string   { return redacted }
func (fileSeed) GoString() string { return redacted }

func encode(s *state) ([]byte, error) {
	f := fileState{
		Operator: fileOperator{Seed: fileSeed(s.operator.seed.Reveal()), Token: s.operator.token},
		System:   encodeAccount(s.system),
		Internal: encodeAccount(s.internal),
		Accounts: []fileAccount{},
	}
	for _, a := range s.accounts {
		f.Accounts = append(f.Accounts, encodeAccount(a))
	}
	payload, err := json.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("marshal identity: %w", err)
	}
	data, err := json.MarshalIndent(envelope{Format: format, Note: note, SHA256: checksum(payload), Identity: payload}, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("marshal identity: %w", err)
	}
	return append(data, '\n'), nil
}

func encodeAccount(a account) fileAccount {
	f := fileAccount{Name: a.name, Seed: fileSeed(a.seed.Reveal()), Token: a.token, Barred: a.barred}
	for _, u := range a.users {
		fu := fileUser{
			Name: u.name, Key: u.public, Seed: fileSeed(u.seed.Reveal()), Signer: fileSeed(u.signer.Reveal()), Token: u.token,
			Own: u.own, Created: u.created, Rotated: u.rotated, HandedOut: u.handedOut,
		}
		for _, r := range u.retiring {
			fu.Retiring = append(fu.Retiring, fileRetiring{Key: r.public, Issued: r.issued, Until: r.until})
		}
		f.Users = append(f.Users, fu)
	}
	return f
}

// decode reads a file and proves that it is whole and that its keys belong
// together. Its errors never hold anything that was in the file but names.
func decode(data []byte) (*state, error) {
	var e envelope
	if err := json.Unmarshal(data, &e); err != nil {
		return nil, fmt.Errorf("the file is truncated or damaged: %w", err)
	}
	if e.Format > format {
		return nil, fmt.Errorf("the file has format %d, and this version of holdfast knows %d: a newer version wrote it", e.Format, format)
	}
	if e.Format < 1 {
		return nil, errors.New("the file has no known format number: it is not an identity, or damaged")
	}
	var payload bytes.Buffer
	if err := json.Compact(&payload, e.Identity); err != nil {
		return nil, fmt.Errorf("the file has no identity in it: %w", err)
	}
	if checksum(payload.Bytes()) != e.SHA256 {
		return nil, errors.New("the checksum does not match: the file was edited or is damaged")
	}
	var f fileState
	strict := json.NewDecoder(&payload)
	strict.DisallowUnknownFields()
	if err := strict.Decode(&f); err != nil {
		return nil, fmt.Errorf("the file does not have the fields of format %d: %w", e.Format, err)
	}
	return f.state()
}

func checksum(payload []byte) string {
	sum := sha256.Sum256(payload)
	return hex.EncodeToString(sum[:])
}

func (f fileState) state() (*state, error) {
	s := &state{operator: operator{seed: newSecret([]byte(f.Operator.Seed)), token: f.Operator.Token}}
	var err error
	if s.system, err = f.System.account(); err != nil {
		return nil, err
	}
	if s.internal, err = f.Internal.account(); err != nil {
		return nil, err
	}
	public, err := s.operator.check(s.system.public)
	if err != nil {
		return nil, fmt.Errorf("operator: %w", err)
	}
	for i, fa := range f.Accounts {
		a, err := fa.account()
		if err != nil {
			return nil, err
		}
		if i > 0 && strings.Compare(f.Accounts[i-1].Name, fa.Name) >= 0 {
			return nil, fmt.Errorf("account %q: it is not in its place", fa.Name)
		}
		s.accounts = append(s.accounts, a)
	}
	for _, a := range s.all() {
		if err := a.check(public); err != nil {
			return nil, fmt.Errorf("account %q: %w", a.name, err)
		}
	}
	return s, nil
}

func (f fileAccount) account() (account, error) {
	a := account{name: f.Name, seed: newSecret([]byte(f.Seed)), token: f.Token, barred: f.Barred}
	var err error
	if a.public, err = publicOf(a.seed); err != nil {
		return account{}, fmt.Errorf("account %q: %w", f.Name, err)
	}
	for i, fu := range f.Users {
		if i > 0 && strings.Compare(f.Users[i-1].Name, fu.Name) >= 0 {
			return account{}, fmt.Errorf("account %q: user %q is not in its place", f.Name, fu.Name)
		}
		u, err := fu.user()
		if err != nil {
			return account{}, fmt.Errorf("account %q: user %q: %w", f.Name, fu.Name, err)
		}
		a.users = append(a.users, u)
	}
	return a, nil
}

func (f fileUser) user() (user, error) {
	u := user{
		name: f.Name, public: f.Key, signer: newSecret([]byte(f.Signer)), token: f.Token,
		own: f.Own, created: f.Created, rotated: f.Rotated, handedOut: f.HandedOut,
	}
	if f.Seed != "" {
		u.seed = newSecret([]byte(f.Seed))
	}
	if u.public == "" { // format 1
		var err error
		if u.public, err = publicOf(u.seed); err != nil {
			return user{}, err
		}
	}
	for _, r := range f.Retiring {
		u.retiring = append(u.retiring, retiring{public: r.Key, issued: r.Issued, until: r.Until})
	}
	return u, nil
}
