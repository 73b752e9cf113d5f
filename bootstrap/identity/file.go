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
)

// format is the version of the file. A version that is not this one is refused:
// what it holds beyond what is known here would be lost at the next save.
const format = 1

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
	Name  string     `json:"name"`
	Seed  fileSeed   `json:"seed"`
	Token string     `json:"token"`
	Users []fileUser `json:"users,omitempty"`
}

type fileUser struct {
	Name   string   `json:"name"`
	Seed   fileSeed `json:"seed"`
	Signer fileSeed `json:"signer"`
	Token  string   `json:"token"`
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
	f := fileAccount{Name: a.name, Seed: fileSeed(a.seed.Reveal()), Token: a.token}
	for _, u := range a.users {
		f.Users = append(f.Users, fileUser{
			Name: u.name, Seed: fileSeed(u.seed.Reveal()), Signer: fileSeed(u.signer.Reveal()), Token: u.token,
		})
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
	if e.Format != format {
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
		return nil, fmt.Errorf("the file does not have the fields of format %d: %w", format, err)
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
	a := account{name: f.Name, seed: newSecret([]byte(f.Seed)), token: f.Token}
	var err error
	if a.public, err = publicOf(a.seed); err != nil {
		return account{}, fmt.Errorf("account %q: %w", f.Name, err)
	}
	for i, u := range f.Users {
		if i > 0 && strings.Compare(f.Users[i-1].Name, u.Name) >= 0 {
			return account{}, fmt.Errorf("account %q: user %q is not in its place", f.Name, u.Name)
		}
		a.users = append(a.users, user{
			name: u.Name, seed: newSecret([]byte(u.Seed)), signer: newSecret([]byte(u.Signer)), token: u.Token,
		})
	}
	return a, nil
}
