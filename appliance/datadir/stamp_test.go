// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

const goodStamp = `{"format":1,"written_by":"0.1.0","node_name":"hf-abc","node_id":"id","created":"2026-01-02T03:04:05Z"}`

func dirWithStamp(t *testing.T, content string) string {
	t.Helper()
	dir := newDirWith(t, "jetstream/ACCOUNT/")
	if err := os.WriteFile(filepath.Join(dir, stampName), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// The format on disk is a promise: this stamp was not written by this code.
func TestOpenReadsTheFirstFormat(t *testing.T) {
	d := mustOpen(t, dirWithStamp(t, goodStamp), Options{})
	if d.NodeName() != "hf-abc" || d.NodeID() != "id" {
		t.Errorf("got %q %q, want hf-abc id", d.NodeName(), d.NodeID())
	}
}

func TestStampHasTheDocumentedKeys(t *testing.T) {
	path := newPath(t)
	d := mustOpen(t, path, Options{Version: "0.3.0"})
	data, err := os.ReadFile(filepath.Join(path, stampName))
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if got["format"] != 1.0 || got["written_by"] != "0.3.0" || got["node_name"] != d.NodeName() || got["node_id"] != d.NodeID() {
		t.Errorf("got %s, want format 1, version 0.3.0 and the node's name and id", data)
	}
	if _, err := time.Parse(time.RFC3339, got["created"].(string)); err != nil {
		t.Error(err)
	}
}

func TestOpenRefusesANewerFormat(t *testing.T) {
	for _, content := range []string{
		`{"format":2,"written_by":"0.9.0","node_name":"hf-abc","node_id":"id"}`,
		// What else is in a newer stamp cannot be known.
		`{"format":7,"written_by":"0.9.0","node_name":{"first":"x"},"created":17}`,
	} {
		dir := dirWithStamp(t, content)
		wantFault(t, openErr(dir, Options{Version: "0.1.0"}), diag.CodeNewerFormat, true, dir, `"0.9.0"`, "install that version")
		got, err := os.ReadFile(filepath.Join(dir, stampName))
		if err != nil || string(got) != content {
			t.Errorf("got stamp %q, %v after the refusal, want %q", got, err, content)
		}
	}
	wantFault(t, openErr(dirWithStamp(t, `{"format":2,"written_by":["x"]}`), Options{}), diag.CodeNewerFormat, true, "a newer version")
}

func TestOpenRefusesAStampItCannotRead(t *testing.T) {
	for _, content := range []string{
		"", "{", goodStamp[:40], "\x00\x00\x00\x00", "[]", `{}`, goodStamp + "x",
		`{"format":0,"node_name":"a","node_id":"id"}`,
		`{"format":1,"written_by":"0.1.0","node_id":"id"}`,
		`{"format":1,"written_by":"0.1.0","node_name":"a b","node_id":"id"}`,
		`{"format":1,"written_by":"0.1.0","node_name":"a"}`,
	} {
		dir := dirWithStamp(t, content)
		err := openErr(dir, Options{})
		wantFault(t, err, diag.CodeStamp, true, "read "+filepath.Join(dir, stampName)+": ", "restore")
		if strings.Contains(err.Error(), "Go value") {
			t.Errorf("got %q, want no Go types", err)
		}
		got, err := os.ReadFile(filepath.Join(dir, stampName))
		if err != nil || string(got) != content {
			t.Errorf("got stamp %q, %v after the refusal, want %q", got, err, content)
		}
	}
	wantFault(t, openErr(newDirWith(t, "VERSION/"), Options{}), diag.CodeStamp, true, "is a directory")
}

func TestOpenRecordsAnotherVersionAfterTheChecks(t *testing.T) {
	dir := dirWithStamp(t, goodStamp)
	if err := openErr(dir, Options{Version: "0.2.0", NodeName: "other"}); diag.CodeOf(err) != diag.CodeNameChanged {
		t.Fatalf("got %v, want %s", err, diag.CodeNameChanged)
	}
	if s, err := readStamp(dir); err != nil || s.WrittenBy != "0.1.0" {
		t.Errorf("got %+v, %v after a refusal, want 0.1.0 still", s, err)
	}
	before, err := readStamp(dir)
	if err != nil {
		t.Fatal(err)
	}
	mustOpen(t, dir, Options{Version: "0.2.0"})
	after, err := readStamp(dir)
	if err != nil {
		t.Fatal(err)
	}
	before.WrittenBy = "0.2.0"
	if after != before {
		t.Errorf("got %+v, want %+v", after, before)
	}
}
