// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-mq/holdfast/appliance/doctor"
)

func TestDoctorText(t *testing.T) {
	well := func(name, evidence string) doctor.Result {
		return doctor.Result{Name: name, Verdict: doctor.OK, Evidence: evidence}
	}
	blind := func(name, fix string) doctor.Result {
		return doctor.Result{Name: name, Verdict: doctor.Unknown, Findings: []doctor.Finding{
			{Verdict: doctor.Unknown, Evidence: "can't look into d, as alice", Consequence: "what can't be seen can't be judged", Fix: fix},
		}}
	}
	healthy := []doctor.Result{well("config", "/etc/holdfast/holdfast.yaml: accounts 1, streams 1"), well("write-cache", "vda: write back, flushes are sent"),
		{Name: "certificates", Verdict: doctor.Skipped, Evidence: "listeners on loopback need none"}}
	ill := []doctor.Result{healthy[0],
		{Name: "ports", Verdict: doctor.Fail, Evidence: "free: 127.0.0.1:8222", Findings: []doctor.Finding{{Verdict: doctor.Fail, Evidence: "127.0.0.1:4222 (listen.client) is taken by process 812 (nats-server)",
			Consequence: "the node can't listen there", Fix: "systemctl disable --now nats-server"}}},
		{Name: "access", Verdict: doctor.Warn, Findings: []doctor.Finding{
			{Verdict: doctor.Warn, Evidence: "mode 0644", Consequence: "it says who may do what", Fix: "# first this\nchmod 0640 f"},
			{Verdict: doctor.Unknown, Evidence: "can't look at f, as alice", Consequence: "what can't be seen can't be judged", Fix: "sudo holdfast doctor access"},
		}},
		blind("store", "sudo holdfast doctor store"), blind("node", "sudo holdfast doctor node\n# or, for ever: sudo usermod -aG holdfast alice"),
	}
	for name, results := range map[string][]doctor.Result{"healthy": healthy, "ill": ill} {
		var got bytes.Buffer
		printDoctor(&got, doctor.Input{File: "/etc/holdfast/holdfast.yaml"}, results)
		file := filepath.Join("testdata", "doctor", name+".txt")
		if *update {
			if err := os.WriteFile(file, got.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
