// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// formatVersion is raised by every change that an older Holdfast must not
// open, and by every new field of the stamp: an older one would drop it.
const formatVersion = 1

// stamp is the content of VERSION.
type stamp struct {
	Format    int    `json:"format"`
	WrittenBy string `json:"written_by"`
	// NodeName is the node's Raft peer: it must never change or be guessed.
	NodeName string    `json:"node_name"`
	NodeID   string    `json:"node_id"`
	Created  time.Time `json:"created"`
}

// createStamp stamps a new directory. It is durable before it returns.
func createStamp(dir string, o Options) (stamp, error) {
	s := stamp{
		Format:    formatVersion,
		WrittenBy: o.Version,
		NodeName:  o.NodeName,
		NodeID:    strings.ToLower(rand.Text()),
		Created:   time.Now().UTC().Truncate(time.Second),
	}
	if s.NodeName == "" {
		s.NodeName = "hf-" + strings.ToLower(rand.Text()[:10])
	}
	return s, s.write(dir)
}

func (s stamp) write(dir string) error {
	data, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", stampName, err)
	}
	return WriteFile(filepath.Join(dir, stampName), append(data, '\n'), 0o600)
}

// update records which version opened the directory last.
func (s *stamp) update(dir, version string) error {
	next := *s
	next.WrittenBy = version
	if err := next.write(dir); err != nil {
		return err
	}
	*s = next
	return nil
}

// readStamp returns an error that is fs.ErrNotExist when there is no stamp.
func readStamp(dir string) (stamp, error) {
	path := filepath.Join(dir, stampName)
	data, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return stamp{}, err
	case errors.Is(err, fs.ErrPermission):
		return stamp{}, explain("read", path, err)
	case err != nil:
		return stamp{}, badStamp(path, bareError(err))
	}
	// On its own first: a newer format may have changed every other field.
	var head struct {
		Format int `json:"format"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return stamp{}, badStamp(path, err)
	}
	if head.Format > formatVersion {
		return stamp{}, newerFormat(dir, head.Format, data)
	}
	var s stamp
	if err := json.Unmarshal(data, &s); err != nil {
		return stamp{}, badStamp(path, err)
	}
	switch {
	case s.Format < 1:
		return stamp{}, badStamp(path, fmt.Errorf("format is %d", s.Format))
	case !validNodeName(s.NodeName):
		return stamp{}, badStamp(path, fmt.Errorf("node_name is %q", s.NodeName))
	case s.NodeID == "":
		return stamp{}, badStamp(path, errors.New("node_id is missing"))
	}
	return s, nil
}

// CheckFormat refuses a directory that this version can't open. It only reads, and a
// directory without a stamp is none of its business.
func CheckFormat(dir string) error {
	_, err := readStamp(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func newerFormat(dir string, format int, data []byte) error {
	var by struct {
		WrittenBy string `json:"written_by"`
	}
	// The version only helps the reader: without it the refusal still stands.
	version := "a newer version"
	if err := json.Unmarshal(data, &by); err == nil && by.WrittenBy != "" {
		version = fmt.Sprintf("version %q", by.WrittenBy)
	}
	return diag.FailPermanently(diag.CodeNewerFormat,
		fmt.Errorf("data directory %s was written by %s in format %d, and this version reads up to format %d",
			dir, version, format, formatVersion),
		"install that version of Holdfast or a newer one, or restore a backup that was made before the upgrade")
}

func badStamp(path string, cause error) error {
	// The decoder's own text would name Go types.
	if wrong := (*json.UnmarshalTypeError)(nil); errors.As(cause, &wrong) {
		cause = fmt.Errorf("unexpected %s at byte %d", wrong.Value, wrong.Offset)
	}
	return diag.FailPermanently(diag.CodeStamp, fmt.Errorf("read %s: %w", path, cause),
		"restore the data directory, or this file alone, from a backup of this node; "+
			"it holds the node's name, which cannot be guessed")
}

// checkName refuses a configured name that is not the one the node has kept.
func (s stamp) checkName(dir, configured string) error {
	if configured == "" || configured == s.NodeName {
		return nil
	}
	return diag.FailPermanently(diag.CodeNameChanged,
		fmt.Errorf("data directory %s belongs to node %q, and node.name is %q: a renamed node is a new member of the cluster",
			dir, s.NodeName, configured),
		fmt.Sprintf("set node.name back to %q or remove the key", s.NodeName))
}
