// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

const keyRecordName = "encryption.json"

// keyRecord is what is known of the keys of a store beside it. It holds no key, and
// nothing depends on it but one thing: whether a key file that does not open is damaged,
// or waits for a key before.
type keyRecord struct {
	// Key is which key is in force, as keyring.id tells it.
	Key    string `json:"key"`
	Cipher Cipher `json:"cipher"`
	// All: every key file is under that key.
	All bool `json:"all"`
}

func readKeyRecord(storeDir string) keyRecord {
	var r keyRecord
	text, err := os.ReadFile(filepath.Join(storeDir, keyRecordName))
	if err != nil || json.Unmarshal(text, &r) != nil {
		return keyRecord{}
	}
	return r
}

// write keeps a record; that of a store without a key is none.
func (r keyRecord) write(storeDir string) error {
	path := filepath.Join(storeDir, keyRecordName)
	if r == readKeyRecord(storeDir) {
		return nil
	}
	if r == (keyRecord{}) {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return syncDir(storeDir)
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return writeSynced(path, append(text, '\n'))
}
