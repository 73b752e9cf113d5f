// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

type node struct {
	missing      []string
	reloadFailed bool
	drift        map[string]int
	compared     time.Time
	certificates []Certificate
	refusals     []Refusal
	groups       GroupCommit
	storage      Storage
	cluster      *Cluster
}

func (n node) Missing() []string                  { return n.missing }
func (n node) ReloadFailed() bool                 { return n.reloadFailed }
func (n node) Drift() (map[string]int, time.Time) { return n.drift, n.compared }
func (n node) Certificates() []Certificate        { return n.certificates }
func (n node) Refusals() []Refusal                { return n.refusals }
func (n node) GroupCommit() GroupCommit           { return n.groups }
func (n node) Storage() Storage                   { return n.storage }
func (n node) Cluster() *Cluster                  { return n.cluster }

func scrape(n Node) string {
	w := httptest.NewRecorder()
	b := Build{Version: "0.1.0", Commit: "abc", NATSVersion: "2.15.3", GoVersion: "go1.26"}
	Handler(b, n).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	return w.Body.String()
}

func TestMetricsFollowTheNode(t *testing.T) {
	for _, c := range []struct {
		node node
		want []string
		not  string
	}{
		{node{}, []string{"holdfast_ready 1\n", "holdfast_config_last_reload_successful 1\n"}, "holdfast_client_refusals_total{"},
		{node{missing: []string{"engine: recovering"}, reloadFailed: true}, []string{"holdfast_ready 0\n", "holdfast_config_last_reload_successful 0\n"}, "holdfast_certificate"},
		{node{drift: map[string]int{"update": 2, "drop": 0}, compared: time.UnixMilli(1_800_000_000_500)}, []string{
			`holdfast_topology_differences{op="update"} 2`, `holdfast_topology_differences{op="drop"} 0`,
			"holdfast_topology_compared_timestamp_seconds 1.8000000005e+09",
		}, "\x00"},
		{node{}, nil, "holdfast_topology_compared_timestamp_seconds "},
		{node{
			certificates: []Certificate{{"ca", time.Unix(2_000_000_000, 0)}, {"server", time.Unix(1_900_000_000, 0)}},
			refusals:     []Refusal{{"shop", "packer", "publish", 3}, {"shop", "packer", "subscribe", 1}},
		}, []string{
			`holdfast_certificate_expiry_timestamp_seconds{certificate="ca"} 2e+09`,
			`holdfast_certificate_expiry_timestamp_seconds{certificate="server"} 1.9e+09`,
			`holdfast_client_refusals_total{account="shop",reason="publish",user="packer"} 3`,
			`holdfast_client_refusals_total{account="shop",reason="subscribe",user="packer"} 1`,
			"# TYPE holdfast_client_refusals_total counter",
		}, "\x00"},
		{node{groups: GroupCommit{
			Flush:    1500 * time.Microsecond,
			Streams:  []GroupedStream{{"shop", "ORDERS", true}, {"shop", "CACHE", false}},
			Accounts: []GroupedAccount{{Account: "shop", Alone: 1, Grouped: 2, Batches: 3, Fallbacks: 4, Refused: 5, Unanswered: 6}},
		}}, []string{
			"holdfast_storage_flush_seconds 0.0015",
			`holdfast_group_commit_on{account="shop",stream="ORDERS"} 1`, `holdfast_group_commit_on{account="shop",stream="CACHE"} 0`,
			`holdfast_group_commit_messages_total{account="shop",how="alone"} 1`, `holdfast_group_commit_messages_total{account="shop",how="grouped"} 2`,
			`holdfast_group_commit_batches_total{account="shop"} 3`, `holdfast_group_commit_fallbacks_total{account="shop"} 4`,
			`holdfast_group_commit_refused_messages_total{account="shop"} 5`, `holdfast_group_commit_unanswered_total{account="shop"} 6`,
			"# TYPE holdfast_group_commit_batches_total counter",
		}, "\x00"},
		{node{}, []string{"holdfast_storage_flush_seconds 0"}, "holdfast_group_commit_messages_total{"},
		{node{storage: Storage{Total: 1000, Free: 500, MinFree: 50, Writable: true, FullIn: time.Minute, Cipher: "aes", PreviousKey: true, Reopens: 3, Damaged: map[string]int{"shop/ORDERS": 2}}}, []string{
			"holdfast_storage_volume_bytes 1000\n", "holdfast_storage_volume_free_bytes 500\n", "holdfast_storage_min_free_bytes 50\n",
			"holdfast_storage_publishing_stopped 0\n", "holdfast_storage_writable 1\n", "holdfast_storage_full_in_seconds 60\n",
			`holdfast_storage_encrypted{cipher="aes"} 1`, "holdfast_storage_previous_key 1\n",
			"holdfast_storage_reopens_total 3\n", `holdfast_storage_damaged_blocks{account="shop",stream="ORDERS"} 2`, "# TYPE holdfast_storage_reopens_total counter",
		}, "\x00"},
		{node{storage: Storage{
			Used: 10, Limit: 20, Reserved: 30, Promised: 40, WriteErrors: 5,
			Flushes: Flushes{Count: 3, Sum: 6 * time.Millisecond, UpTo: map[float64]uint64{0.001: 1, 0.01: 3}},
		}}, []string{
			"holdfast_storage_used_bytes 10\n", "holdfast_storage_limit_bytes 20\n", "holdfast_storage_reserved_bytes 30\n", "holdfast_storage_promised_bytes 40\n",
			"holdfast_storage_write_errors_total 5\n", "# TYPE holdfast_storage_write_errors_total counter",
			"# TYPE holdfast_storage_flush_observed_seconds histogram", `holdfast_storage_flush_observed_seconds_bucket{le="0.001"} 1`,
			"holdfast_storage_flush_observed_seconds_count 3\n", "holdfast_storage_flush_observed_seconds_sum 0.006\n",
		}, "\x00"},
		{node{storage: Storage{Verify: Verify{Running: true, Bytes: 7, Last: time.Unix(1_900_000_000, 0), Damaged: 2, Hidden: 3}}}, []string{
			"holdfast_verify_running 1\n", "holdfast_verify_bytes_total 7\n", "holdfast_verify_last_pass_timestamp_seconds 1.9e+09\n",
			"holdfast_verify_damaged 2\n", "holdfast_verify_hidden_blocks 3\n", "# TYPE holdfast_verify_bytes_total counter",
		}, "\x00"},
		{node{}, []string{"holdfast_verify_running 0\n"}, "holdfast_verify_last_pass_timestamp_seconds "},
		{node{storage: Storage{Stopped: true}}, []string{"holdfast_storage_publishing_stopped 1\n", "holdfast_storage_writable 0\n"}, "holdfast_storage_full_in_seconds "},
		{node{}, nil, "holdfast_storage_encrypted"},
		{node{}, nil, "holdfast_cluster_"},
		{node{cluster: &Cluster{
			Members: 3, Connected: 2, Quorum: 2, LeaderKnown: true, Leads: true, Leaderless: 4,
			Peers:  []Peer{{Node: "n2", Ahead: -1500 * time.Millisecond, Connected: true, Alone: 5}, {Node: "n3", Alone: 2, Stopped: true}},
			Copies: []Copy{{"shop", "ORDERS", "n2", 7, false}, {"shop", "ORDERS", "n1", 0, true}},
		}}, []string{
			"holdfast_cluster_members 3\n", "holdfast_cluster_members_connected 2\n", "holdfast_cluster_quorum_members 2\n",
			"holdfast_cluster_leader_known 1\n", "holdfast_cluster_leads 1\n", "holdfast_cluster_streams_without_leader 4\n",
			`holdfast_cluster_clock_offset_seconds{node="n2"} -1.5`, `holdfast_cluster_member_connected{node="n3"} 0`,
			`holdfast_cluster_streams_out_of_reach{node="n2"} 0`, `holdfast_cluster_streams_out_of_reach{node="n3"} 2`,
			`holdfast_cluster_member_publishing_stopped{node="n2"} 0`, `holdfast_cluster_member_publishing_stopped{node="n3"} 1`,
			`holdfast_cluster_replica_lag{account="shop",node="n2",stream="ORDERS"} 7`,
			`holdfast_cluster_replica_current{account="shop",node="n2",stream="ORDERS"} 0`, `holdfast_cluster_replica_current{account="shop",node="n1",stream="ORDERS"} 1`,
		}, "\x00"},
	} {
		got := scrape(c.node)
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%+v: got metrics without %q, want it there", c.node, want)
			}
		}
		if strings.Contains(got, c.not) {
			t.Errorf("%+v: got metrics with %q, want none", c.node, c.not)
		}
	}
}

func TestMetricsTellWhatIsRunning(t *testing.T) {
	got := scrape(node{})
	for _, want := range []string{
		`holdfast_build_info{commit="abc",go_version="go1.26",nats_version="2.15.3",version="0.1.0"} 1`,
		"# HELP holdfast_ready ", "# TYPE holdfast_ready gauge", "go_goroutines ", "process_",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got metrics without %q, want it there", want)
		}
	}
}

// TestFiguresOfTheDiskAreInTheDocument keeps the names there and here equal.
func TestFiguresOfTheDiskAreInTheDocument(t *testing.T) {
	const prefix = "holdfast_storage_"
	var doc string
	for _, file := range []string{"full-disk.md", "damage.md"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "docs", "ops", file))
		if err != nil {
			t.Fatal(err)
		}
		doc += string(text)
	}
	n := 0
	for line := range strings.Lines(scrape(node{storage: Storage{FullIn: 1, Damaged: map[string]int{"a/B": 1}}})) {
		name, ok := strings.CutPrefix(line, "# TYPE "+prefix)
		if !ok {
			continue
		}
		name, _, _ = strings.Cut(name, " ")
		if n++; !strings.Contains(doc, prefix+name) && !strings.Contains(doc, "`"+name+"`") {
			t.Errorf("%s%s is not in docs/ops/full-disk.md", prefix, name)
		}
	}
	if n < 15 {
		t.Errorf("got %d figures, want those of the disk", n)
	}
}
