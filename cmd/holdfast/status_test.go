// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-mq/holdfast/appliance/admin"
)

// madeUp is a node that has something of everything.
func madeUp() admin.Status {
	oldest := 3661.4
	return admin.Status{
		Ready: true,
		Phase: admin.PhaseRunning,
		Node: admin.NodeStatus{
			Name: "hf-plant7", Version: "0.1.0", NATSVersion: "2.15.3", PID: 812, UptimeSeconds: 3 * 24 * 3600,
			DataDir: "/var/lib/holdfast", ConfigFiles: []string{"/etc/holdfast/holdfast.yaml", "/etc/holdfast/holdfast.d/10-site.yaml"}, ConfigDigest: "0123456789ab",
		},
		Listeners: []admin.Listener{
			{Name: "client", Address: "127.0.0.1:4222", Open: true}, {Name: "http", Address: "127.0.0.1:8222", Open: true},
			{Name: "admin", Address: "/run/holdfast/admin.sock", Open: true},
		},
		Durability: admin.Durability{Mode: "strict"},
		Storage: admin.Storage{
			Limit: 8 << 30, Reserved: 2 << 30, Promised: 3 << 30, Used: 300 << 20, VolumeTotal: 10 << 30, VolumeFree: 9 << 30, FileSystem: "ext4", FlushSeconds: 0.0012345678,
			Flushes: &admin.Latency{Count: 200, P50: 0.00123, P99: 0.0045678, Max: 0.0789},
		},
		Traffic: admin.Traffic{Connections: 12, InMsgs: 1234567, OutMsgs: 7654321},
		Accounts: []admin.AccountStatus{
			{Name: "empty", InFile: true},
			{Name: "shop", InFile: true, GroupCommit: &admin.GroupCounters{Alone: 1234, Grouped: 123456, Batches: 4567}, Streams: []admin.StreamStatus{
				{Name: "ORDERS", InFile: true, GroupCommit: admin.GroupCommit{On: true}, Messages: 123456, Bytes: 300 << 20, MaxBytes: 1 << 30, Consumers: []admin.ConsumerStatus{
					{Name: "fulfilment", InFile: true, Lag: 1200, NumAckPending: 7, NumRedelivered: 2, OldestUnacknowledged: &oldest},
					{Name: "by-hand", Lag: 0},
				}},
				{Name: "BY-HAND", MaxBytes: -1, GroupCommit: admin.GroupCommit{Reason: "not in the file"}},
			}},
		},
	}
}

func TestStatusText(t *testing.T) {
	notReady := madeUp()
	notReady.Ready, notReady.Phase, notReady.Accounts = false, admin.PhaseRecovering, nil
	notReady.Missing = []string{"engine: recovering streams: 3 of 40, 1.0 GiB of 9.0 GiB"}
	notReady.Listeners[0] = admin.Listener{Name: "client", Address: "127.0.0.1:4222"}
	notReady.Recovery = &admin.Recovery{StreamsDone: 3, StreamsTotal: 40, BytesDone: 1 << 30, BytesTotal: 9 << 30, Current: "shop/ORDERS"}
	notReady.Node.UptimeSeconds = 12.34

	troubled := madeUp()
	troubled.Node.ConfigFiles = nil
	troubled.Durability = admin.Durability{Mode: "interval", SyncIntervalSeconds: 1.5}
	troubled.Accounts = []admin.AccountStatus{
		{Name: "dark", InFile: true, Unavailable: "no answer in time"},
		{Name: "shop", InFile: true, Streams: []admin.StreamStatus{
			{Name: "LOST", InFile: true, Messages: 10, Bytes: 1000, MaxBytes: 1 << 20, LostMsgs: 3},
			{Name: "A-STREAM-WITH-A-NAME-THAT-IS-AS-LONG-AS-NAMES-OF-STREAMS-REALLY-ARE-IN-SOME-PLACES", InFile: true, MaxBytes: 1 << 20, Consumers: []admin.ConsumerStatus{
				{Name: "gone", InFile: true, Unavailable: "consumer not found"},
			}},
			{Name: "BROKEN", InFile: true, Unavailable: "stream is offline"},
		}},
	}
	for i := range troubled.Accounts[1].Streams {
		troubled.Accounts[1].Streams[i].GroupCommit.Reason = "storage.durability: without an fsync before each acknowledgement there is nothing to share"
	}
	troubled.Problems = []admin.Problem{
		{Severity: "warning", Code: "HF2202", Where: "/etc/holdfast/holdfast.yaml:9:20", What: "accounts.shop.streams.LOST.max_bytes: 1MiB on the server, 2MiB in the file", Fix: "put the server's value in the file"},
		{Severity: "warning", Code: "HF2203", What: "accounts.shop.streams.OLD: the stream is on the server and not in the file", Fix: "declare it again"},
	}
	mixed := madeUp()
	memory := admin.GroupCommit{Reason: "storage: memory has no fsync"}
	mixed.Accounts[1].GroupCommit = &admin.GroupCounters{Alone: 5, Grouped: 4000, Batches: 40, Fallbacks: 3, Refused: 1000, Unanswered: 2}
	mixed.Accounts = append(mixed.Accounts, admin.AccountStatus{Name: "site", InFile: true, GroupCommit: &admin.GroupCounters{Alone: 1}, Streams: []admin.StreamStatus{
		{Name: "A", InFile: true, GroupCommit: memory}, {Name: "B", InFile: true, GroupCommit: memory}, {Name: "C", InFile: true, GroupCommit: memory},
		{Name: "D", InFile: true, GroupCommit: admin.GroupCommit{Reason: "group_commit: off in the file"}}, {Name: "E", InFile: true, GroupCommit: memory},
	}})
	checking := notReady
	checking.Recovery = &admin.Recovery{StreamsTotal: 40, BytesTotal: 9 << 30, BytesChecked: 1 << 30, BytesToCheck: 8 << 30}
	stopped := madeUp()
	stopped.Storage.PublishingStopped, stopped.Storage.WriteError, stopped.Storage.WriteErrors = "why", "write to /var/lib/holdfast: read-only file system", 1234
	joining := admin.Status{
		Phase: admin.PhaseJoining, Missing: []string{"cluster: waiting for n2:6222: connection refused"},
		Node:       admin.NodeStatus{Name: "n1", Version: "0.1.0", NATSVersion: "2.15.3", PID: 812, UptimeSeconds: 12, DataDir: "/var/lib/holdfast", ConfigFiles: []string{"/etc/holdfast/holdfast.yaml"}, ConfigDigest: "0123456789ab"},
		Durability: admin.Durability{Mode: "strict"}, Listeners: []admin.Listener{{Name: "admin", Address: "/run/holdfast/admin.sock", Open: true}},
		Cluster: &admin.Cluster{Name: "plant-7", Size: 3, Quorum: 2, Nodes: []admin.Member{{Address: "n1:6222", Self: true}, {Address: "n2:6222"}, {Address: "n3:6222"}}},
		Storage: admin.Storage{VolumeTotal: 10 << 30, VolumeFree: 9 << 30, FileSystem: "ext4"},
	}
	unseen := joining
	unseen.Storage = admin.Storage{}
	for name, s := range map[string]admin.Status{"ready": madeUp(), "recovering": notReady, "checking": checking, "stopped": stopped, "troubled": troubled, "grouped": mixed, "joining": joining, "joining-unseen": unseen} {
		var got bytes.Buffer
		printStatus(&got, s)
		file := filepath.Join("testdata", "status", name+".txt")
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
			t.Errorf("%s: got another text (-want +got):\n%s", name, diff)
		}
	}
}

func TestSinceSaysTimeAsPeopleDo(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0.0s", 1500 * time.Millisecond: "1.5s", 59 * time.Second: "59.0s", 61400 * time.Millisecond: "1m1s",
		47 * time.Hour: "47h0m0s", 49 * time.Hour: "2d",
	} {
		if got := since(d.Seconds()); got != want {
			t.Errorf("%v: got %q, want %q", d, got, want)
		}
	}
}
