// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"github.com/holdfast-mq/holdfast/appliance/admin"
	"github.com/holdfast-mq/holdfast/appliance/engine"
)

// encryption reads the keys for stored messages.
func (a *Appliance) encryption() (engine.Encryption, error) {
	cfg := a.opts.Config
	e := cfg.Storage.Encryption
	key, err := e.Key.Reveal()
	if err != nil {
		return engine.Encryption{}, err
	}
	previous, err := e.PreviousKey.Reveal()
	if err != nil {
		return engine.Encryption{}, err
	}
	return engine.Encryption{
		Cipher: engine.Cipher(e.Cipher), Key: engine.NewKey(key), PreviousKey: engine.NewKey(previous),
		Place: cfg.At("storage", "encryption").String(),
		Free: func() (uint64, error) {
			vol, err := a.dir.Volume()
			return vol.Free, err
		},
	}, nil
}

// tellEncryption logs what the start did about encryption.
func (a *Appliance) tellEncryption() {
	s := a.engine.Encryption()
	if s.Encrypted > 0 {
		a.log.Info("streams encrypted, what was in plain text is removed", keyCount, s.Encrypted)
	}
	if s.Decrypted > 0 {
		a.log.Warn("streams decrypted, messages are stored in plain text", keyCount, s.Decrypted,
			keyFix, "storage.encryption can be taken out of the file")
	}
	if s.Cipher == "" {
		return
	}
	a.log.Info("stored messages are encrypted", "cipher", string(s.Cipher), "keys", s.Keys)
	if s.Previous {
		a.log.Info("all keys are under the new key, storage.encryption.previous_key can be taken out of the file",
			keyCount, s.Rewrapped, keyTotal, s.Keys)
	}
}

// encryptionStatus is nil while nothing is encrypted.
func (a *Appliance) encryptionStatus() *admin.Encryption {
	s := a.engine.Encryption()
	if s.Cipher == "" {
		return nil
	}
	return &admin.Encryption{Cipher: string(s.Cipher), PreviousKey: s.Previous}
}
