// SPDX-License-Identifier: Apache-2.0

//go:build process && linux

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-mq/holdfast/appliance/doctor"
)

// doctor runs the checks and returns them by name.
func (n *node) doctor(code int, names ...string) map[string]doctor.Result {
	n.t.Helper()
	got, out, _ := n.secretly(append([]string{"doctor", "--config", n.file(), "--output", "json"}, names...)...) // stderr may tell how far it is
	var answer struct {
		Checks []doctor.Result `json:"checks"`
	}
	if err := json.Unmarshal([]byte(out), &answer); err != nil || got != code {
		n.t.Fatalf("got exit code %d and %v, want %d\n%s", got, err, code, out)
	}
	all := map[string]doctor.Result{}
	for _, r := range answer.Checks {
		all[r.Name] = r
	}
	return all
}

// TestProcessDoctorBesideANode asks about a real node: running, broken and killed.
func TestProcessDoctorBesideANode(t *testing.T) {
	n := newNode(t, shop).start()
	ofTheNode := []string{"config", "node", "version", "access", "store", "lock", "ports", "names", "descriptors", "memory", "swap", "huge-pages", "space", "write-cache"}
	for name, r := range n.doctor(exitOK, ofTheNode...) {
		if r.Verdict != doctor.OK {
			t.Errorf("%s: got %+v, want ok beside a healthy node", name, r)
		}
	}
	all := n.doctor(exitNotReady) // the tests' directory is below /tmp
	if len(all) != len(doctor.List()) || all["file-system"].Verdict != doctor.Fail {
		t.Errorf("got %d checks and %+v, want all and a directory below /tmp found", len(all), all["file-system"])
	}
	for name, r := range all {
		if r.Verdict == doctor.Fail && name != "file-system" {
			t.Errorf("%s: got %+v, want no failure", name, r)
		}
	}

	// The file breaks under the node: the node goes on, and so do the other checks.
	good, err := os.ReadFile(n.file())
	if err != nil {
		t.Fatal(err)
	}
	n.configure("node: {data_dir: data}\nacounts: {}\n")
	broken := n.doctor(exitNotReady, "config", "node", "lock")
	if broken["config"].Verdict != doctor.Fail || broken["node"].Verdict != doctor.OK || broken["lock"].Verdict != doctor.OK {
		t.Errorf("got %+v, want the configuration to fail and the node to be well", broken)
	}
	n.configure(string(good))

	n.kill9()
	stopped := n.doctor(exitOK, "node", "lock", "store", "certificates", "descriptors")
	if r := stopped["node"]; r.Verdict != doctor.Warn || !strings.Contains(r.Findings[0].Evidence, "nothing answers") {
		t.Errorf("got %+v, want no node", r)
	}
	if r := stopped["lock"]; r.Verdict == doctor.Fail || !strings.HasPrefix(r.Evidence, "nobody uses ") {
		t.Errorf("got %+v, want nobody to use the directory", r)
	}
}

// TestProcessDoctorChangesNothing compares the data directory before and after.
func TestProcessDoctorChangesNothing(t *testing.T) {
	n := newNode(t, shop).start()
	n.stop()
	before := tree(t, n.data)
	n.doctor(exitNotReady)
	if after := tree(t, n.data); !slices.Equal(before, after) {
		t.Errorf("got %v, want %v as before", after, before)
	}
	n.start()
}

func tree(t *testing.T, dir string) []string {
	t.Helper()
	var all []string
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil {
			all = append(all, path+" "+info.Mode().String()+" "+info.ModTime().String())
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
