// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

const consumersDir = "obs"

// metaMender looks after the configuration of a stream and its consumers. The server
// passes over a stream where that is missing or broken, and a stream that is then
// created in its place takes over its blocks, or deletes them when the creation fails.
type metaMender struct {
	storeDir, dir string
	key           streamKey
	account       string // its name
	known         known
	now           time.Time
	found         []Damage

	encrypted bool
	keys      *keyring // nil when it is not encrypted, or nothing opens it
}

// own is the key of the stream, nil where it is not encrypted; false when it does not
// open: see setAsideUnreadable.
func (m *metaMender) own() (*objectKey, bool) {
	if !m.encrypted {
		return nil, true
	}
	return m.keys.metaKey(m.dir, m.key.account, m.key.stream)
}

// stream restores the configuration of the stream: from the note of it, else, where
// messages are there, as one that keeps them all and takes what the file declares. Of one
// that is encrypted there is no note; what is written for it is encrypted, too.
func (m *metaMender) stream() error {
	own, ok := m.own()
	if !ok {
		return nil
	}
	back, err := m.restore(m.dir, m.key.stream, m.key.stream, m.known.Meta)
	if err != nil || back {
		return err
	}
	path := filepath.Join(m.dir, server.JetStreamMetaFile)
	meta, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrPermission) {
		return nil // it may be whole: the server says that it can't read it
	}
	if err != nil {
		meta = nil // what the disk does not give back is as good as gone
	}
	if err == nil && opensWhole(own, meta, m.key.stream) {
		return nil
	}
	if err != nil && own != nil && blocksSize(m.dir) == 0 {
		return nil // its creation was cut short
	}
	if blocks, _, err := storedBlocks(filepath.Join(m.dir, messagesDir)); err != nil || len(blocks) == 0 {
		// Nothing to keep; what is torn would be in the way of one that is whole.
		return errors.Join(err, m.setAside(path, meta, "meta.inf", "its configuration was damaged; it had no messages"))
	}
	text, err := json.Marshal(map[string]any{
		"name": m.key.stream, "retention": "limits", "storage": "file", "discard": "old", "num_replicas": 1, "created": m.now.UTC(),
		"max_consumers": -1, "max_msgs": -1, "max_bytes": -1, "max_age": 0, "max_msgs_per_subject": -1, "max_msg_size": -1, "allow_direct": true,
	})
	if err != nil {
		return fmt.Errorf("make a configuration: %w", err)
	}
	if text, err = own.box(text); err != nil {
		return fmt.Errorf("make a configuration: %w", err)
	}
	return errors.Join(m.setAside(path, meta, "meta.inf", "its configuration was lost: it is a plain stream with all of its messages until the file, or somebody, says what it is"),
		writeSynced(path, text))
}

func opensWhole(own *objectKey, meta []byte, name string) bool {
	plain, err := own.unbox(meta)
	return err == nil && wholeMeta(plain, name)
}

// consumers restores the configurations of consumers, where there is a note of them, so
// not those of an encrypted stream.
func (m *metaMender) consumers() error {
	var errs []error
	for name, meta := range m.known.Consumers {
		dir := filepath.Join(m.dir, consumersDir, name)
		if _, err := os.Stat(dir); err == nil { // one that is gone was deleted
			_, err := m.restore(dir, name, m.key.stream+"/"+name, meta)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// restore puts the note of a configuration into its place where that is not whole, or
// where the note and not the file is what its checksum is of.
func (m *metaMender) restore(dir, name, hashed, note string) (bool, error) {
	if note == "" || m.encrypted || sealed(dir) {
		return false, nil
	}
	path := filepath.Join(dir, server.JetStreamMetaFile)
	meta, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrPermission) {
		return false, nil
	}
	if err != nil {
		meta = nil // what the disk does not give back is as good as gone
	}
	if bytes.Equal(meta, []byte(note)) {
		return false, nil
	}
	sum, _ := os.ReadFile(filepath.Join(dir, server.JetStreamMetaFileSum))
	if wholeMeta(meta, name) && metaSum([]byte(note), hashed) != string(sum) {
		return false, nil
	}
	as, what := "meta.inf", "its configuration"
	if name != m.key.stream || hashed != m.key.stream {
		as, what = "meta-"+name+".inf", "the configuration of consumer "+name
	}
	what += " was damaged, and is back as it was at " + m.known.At.Format(time.DateTime) + " UTC"
	if err := m.setAside(path, meta, as, what); err != nil {
		return false, err
	}
	return true, writeSynced(path, []byte(note))
}

// setAside keeps a configuration that is damaged, and removes it from its place.
func (m *metaMender) setAside(path string, meta []byte, as, what string) error {
	d := Damage{Account: m.account, Stream: m.key.stream, Found: m.now.UTC(), What: what, Lost: []SeqRange{}}
	to := filepath.Join(quarantineDir(m.storeDir, m.key, m.now), as)
	if meta != nil {
		if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
			return fmt.Errorf("make the quarantine: %w", err)
		}
		if err := writeSynced(to, meta); err != nil {
			return err
		}
		d.Original = to
	}
	if err := writeReport(to+damageReport, &d); err != nil {
		return err
	}
	m.found = append(m.found, d)
	if meta == nil {
		// Nobody has seen what is in it.
		_, err := setAside(filepath.Dir(path), filepath.Base(path))
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
