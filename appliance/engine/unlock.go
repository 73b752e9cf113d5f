// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// unlocking makes a store one that the server can read with the present key alone.
//
// nats-server 2.15.3 changes keys and ciphers, and encrypts what is not, while it recovers
// a stream: it writes a new key for a block and then the block, in place and without a
// flush. What a kill or a power cut leaves in between is garbage to it, and cut off. It
// does not know the positions of consumers under a key before, and passes over a stream
// that it can't decrypt. So it never gets to do any of that: everything here is checked
// before it is touched, each file is the old or the new one at any time, and a start that
// ends in the middle is gone on with by the next.
type unlocking struct {
	storeDir string
	enc      Encryption
	names    Names
	step     func(what string) error // ends a test's process; see Engine.step
	tell     func(doing, current string, done, total int)
	check    *checking // how far the look at the blocks is

	key, before *keyring // nil without
	files       []keyFile
	opened      opened
	replica     bool // of a cluster
	unhidden    []Damage
	plain       []streamKey // streams that are not encrypted
	sealed      []streamKey // and those that are
	state       EncryptionState
}

// opened are key files by what opens them.
type opened struct {
	key, before []keyFile
	needed      int       // of both, without the spare ones
	closed      []keyFile // nothing does; without the spare ones
}

// add sorts a file by what opens it. A file that no key ever opens, such as what a power
// cut leaves of one that was not synced, is damaged and looked at later (see mend).
func (o *opened) add(f keyFile, key, before *keyring) {
	if _, ok := cipherOf(len(f.text)); !ok || empty(f.text) {
		return
	}
	_, byKey := key.open(f.account, f.name, f.text)
	_, byBefore := before.open(f.account, f.name, f.text)
	switch {
	case byKey:
		o.key = append(o.key, f)
	case byBefore:
		o.before = append(o.before, f)
	case !f.spare:
		o.closed = append(o.closed, f)
	}
	if !f.spare && (byKey || byBefore) {
		o.needed++
	}
}

func (e *Engine) newUnlocking() *unlocking {
	enc := e.settings.Encryption
	return &unlocking{
		storeDir: e.settings.StoreDir, enc: enc, names: e.log.names, step: e.step, tell: e.recovery.prepare, check: &e.recovery.check, replica: e.Clustered(),
		key: enc.ring(enc.Key, enc.Cipher), before: enc.ring(enc.PreviousKey, enc.Cipher),
	}
}

// unlock prepares the store for the server, and mends it.
func (e *Engine) unlock(ctx context.Context) (mended, error) {
	u := e.newUnlocking()
	m, err := u.run(ctx)
	e.mu.Lock()
	e.encryption = u.state
	e.mu.Unlock()
	var fault *diag.Fault
	switch {
	case err == nil || errors.As(err, &fault):
		return m, err
	case ctx.Err() != nil:
		return m, fmt.Errorf("start the engine: %w", context.Cause(ctx))
	}
	return m, diag.Fail(diag.CodeEngine, fmt.Errorf("prepare the store in %s: %w", e.settings.StoreDir, err),
		"the directory must be readable and writable for the user that Holdfast runs as, and its volume must not be full; the next start goes on where this one ended")
}

func (u *unlocking) run(ctx context.Context) (mended, error) {
	for _, f := range []func(context.Context) error{u.settle, u.look, u.refuseClosed, u.unhide, u.begin, u.rewrap} {
		if err := f(ctx); err != nil {
			return mended{}, err
		}
	}
	// Before streams are copied: what is damaged is known by then.
	u.tell("", "", 0, 0)
	look := mend
	if u.replica {
		// What a node of a cluster lost, the others have; a node that remembered it as
		// removed would never get it from them.
		look = mendChecksums
	}
	m, err := look(u.storeDir, u.names, u.ring(), u.check)
	m.damaged = append(u.unhidden, m.damaged...)
	if err != nil {
		return m, fmt.Errorf("mend what is damaged: %w", err)
	}
	if err := u.convert(ctx); err != nil {
		return m, err
	}
	if u.key != nil {
		if err := hideNotes(u.storeDir); err != nil {
			return m, err
		}
	}
	if u.state.Encrypted > 0 {
		if u.state.Keys, err = countKeys(u.storeDir); err != nil {
			return m, err
		}
	}
	return m, u.done()
}

// ring opens what is encrypted.
func (u *unlocking) ring() *keyring {
	if u.key != nil {
		return u.key
	}
	return u.before
}

// unhide finds streams that mend would find only when the others have their new keys.
func (u *unlocking) unhide(ctx context.Context) (err error) {
	if u.replica {
		return nil
	}
	u.unhidden, err = keepHidden(u.storeDir, u.names, time.Now())
	if err != nil || len(u.unhidden) == 0 {
		return err
	}
	u.plain, u.sealed, u.files, u.opened = nil, nil, nil, opened{}
	if err := u.look(ctx); err != nil {
		return err
	}
	return u.refuseClosed(ctx)
}

// look finds out what there is, and what opens it.
func (u *unlocking) look(context.Context) error {
	root := filepath.Join(u.storeDir, server.JetStreamStoreDir)
	if err := readable(root); err != nil {
		return err
	}
	for _, key := range storedStreams(root) {
		sealed, err := isEncrypted(u.dir(key))
		if err != nil {
			return err
		}
		if sealed {
			u.sealed = append(u.sealed, key)
		} else {
			u.plain = append(u.plain, key)
		}
	}
	var err error
	if u.files, err = keyFiles(u.storeDir); err != nil {
		return err
	}
	for _, f := range u.files {
		u.opened.add(f, u.key, u.before)
	}
	u.state.Keys = u.opened.needed
	u.state.Previous = u.key != nil && u.before != nil
	if u.key != nil {
		u.state.Cipher = u.key.cipher
	}
	return nil
}

// readable makes sure that no stream is overlooked: the server would convert it.
func readable(root string) error {
	accounts, err := os.ReadDir(root)
	if err != nil {
		return nil //nolint:nilerr // there is nothing yet, or the server says what is wrong
	}
	for _, a := range accounts {
		if !a.IsDir() {
			continue
		}
		if _, err := os.ReadDir(filepath.Join(root, a.Name(), streamsDir)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

func (u *unlocking) dir(key streamKey) string {
	return filepath.Join(u.storeDir, server.JetStreamStoreDir, key.account, streamsDir, key.stream)
}

func (u *unlocking) label(key streamKey) string { return u.names.name(key.account) + "/" + key.stream }

// refuseClosed refuses what can't be opened, before any file is written.
func (u *unlocking) refuseClosed(context.Context) error {
	switch {
	case u.key == nil && u.before == nil:
		if len(u.sealed) > 0 {
			return u.refuse(fmt.Errorf("the messages in it are encrypted, and there is no key; the first is stream %s", u.label(u.sealed[0])),
				"set storage.encryption.key to the file with the key they were stored with; to keep them in plain text from now on, set previous_key to it instead")
		}
		return nil
	case len(u.opened.closed) > 0 && !u.damagedOnly():
		f := u.opened.closed[0]
		return u.refuse(fmt.Errorf("%s %d of the %d keys in it, the first of stream %s: %s",
			u.named(), len(u.opened.closed), len(u.opened.closed)+u.opened.needed, u.label(f.stream), f.path),
			"put back the key that the messages were stored with; while a key is changed, the one before belongs into storage.encryption.previous_key until the log says that all keys are under the new one")
	case u.key == nil:
		return nil
	}
	for _, f := range append(u.opened.key, u.opened.before...) {
		if c, _ := cipherOf(len(f.text)); c != u.key.cipher && !f.spare {
			return u.refuse(fmt.Errorf("storage.encryption.cipher is %s, and stream %s was stored with %s", u.key.cipher, u.label(f.stream), c),
				fmt.Sprintf("write cipher: %s or remove the line; for another cipher decrypt the store first (previous_key alone), then encrypt it", c))
		}
	}
	return nil
}

// named says which keys were tried and failed.
func (u *unlocking) named() string {
	switch {
	case u.key == nil:
		return "storage.encryption.previous_key does not open"
	case u.before == nil:
		return "storage.encryption.key does not open"
	}
	return "neither storage.encryption.key nor previous_key opens"
}

// damagedOnly reports whether key files that do not open are damaged: all of them were
// under this very key before, and most still are.
func (u *unlocking) damagedOnly() bool {
	r := readKeyRecord(u.storeDir)
	return r.All && r.Key == u.ring().id() && len(u.opened.closed) <= u.opened.needed
}

func (u *unlocking) refuse(err error, fix string) error {
	where := u.storeDir
	if u.enc.Place != "" {
		where += " as " + u.enc.Place + " says"
	}
	return diag.FailPermanently(diag.CodeStoreKey, fmt.Errorf("open the store in %s: %w", where, err), fix+". Nothing was changed")
}

// begin writes down what is going to be done, so that a key that is taken out of the
// configuration too early is not taken for damage.
func (u *unlocking) begin(context.Context) error {
	if u.key == nil || len(u.opened.before) == 0 && len(u.plain) == 0 {
		return nil
	}
	if err := (keyRecord{Key: u.key.id(), Cipher: u.key.cipher}).write(u.storeDir); err != nil {
		return err
	}
	return u.step("begun")
}

func (u *unlocking) done() error {
	r := keyRecord{}
	if u.key != nil {
		r = keyRecord{Key: u.key.id(), Cipher: u.key.cipher, All: true}
	}
	if err := r.write(u.storeDir); err != nil {
		return err
	}
	return u.step("done")
}

// rewrap puts the keys under the present key that are under the one before. What they
// open stays as it is.
func (u *unlocking) rewrap(ctx context.Context) error {
	if u.key == nil || len(u.opened.before) == 0 {
		return nil
	}
	dirs := map[string]bool{}
	for i, f := range u.opened.before {
		u.tell("changing the keys of", u.label(f.stream), i, len(u.opened.before))
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := u.rewrapOne(f); err != nil {
			return err
		}
		dirs[filepath.Dir(f.path)] = true
	}
	for dir := range dirs {
		if err := syncDir(dir); err != nil {
			return err
		}
	}
	u.state.Rewrapped = len(u.opened.before)
	return u.step("rewrapped all")
}

func (u *unlocking) rewrapOne(f keyFile) error {
	o, ok := u.before.open(f.account, f.name, f.text)
	if !ok {
		return fmt.Errorf("open %s: %w", f.path, errNotOpened)
	}
	text, err := u.key.seal(f.account, f.name, o)
	if err != nil {
		return err
	}
	if err := replace(f.path, text); err != nil {
		// A batch in memory may be gone by now, and with it what the key opens.
		if f.spare && errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	}
	return u.step("rewrapped " + filepath.Base(f.path))
}
