// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// load reads a file with the given text.
func load(t *testing.T, text string, environ ...string) (*config.Config, diag.List) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "holdfast.yaml")
	write(t, file, text, 0o644)
	cfg, l := config.Load(config.Options{File: file, Environ: environ})
	complete(t, l)
	return cfg, l
}

func TestLaterSourcesWin(t *testing.T) {
	file := filepath.Join(t.TempDir(), "holdfast.yaml")
	overlays := strings.TrimSuffix(file, ".yaml") + ".d"
	o := config.Options{File: file}
	steps := []struct {
		add  func()
		want string
		from string
	}{
		{func() { write(t, file, "node: {}\n", 0o644) }, "/var/lib/holdfast", ""},
		{func() { write(t, file, "node: {data_dir: /file}\n", 0o644) }, "/file", file + ":1:18"},
		{func() { write(t, overlays+"/10.yaml", "node: {data_dir: /ten}\n", 0o644) }, "/ten", overlays + "/10.yaml:1:18"},
		{func() { write(t, overlays+"/20.yml", "node: {data_dir: /twenty}\n", 0o644) }, "/twenty", overlays + "/20.yml:1:18"},
		{func() { o.Environ = []string{"HOLDFAST_NODE__DATA_DIR=/env", "PATH=/bin"} }, "/env", "$HOLDFAST_NODE__DATA_DIR"},
		{func() { o.Flags = []config.Flag{{Name: "--data-dir", Key: "node.data_dir", Text: "/flag"}} }, "/flag", "--data-dir"},
	}
	for _, s := range steps {
		s.add()
		cfg, l := config.Load(o)
		if len(l) > 0 {
			t.Fatalf("got %v, want no problems", l)
		}
		if got := cfg.Node.DataDir; got != s.want {
			t.Errorf("got data_dir %q, want %q", got, s.want)
		}
		if got := cfg.At("node", "data_dir").String(); s.from != "" && got != s.from {
			t.Errorf("got data_dir from %s, want %s", got, s.from)
		}
	}
}

func TestRelativePathsStartWhereTheyAreWritten(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.yaml"), "node: {data_dir: data}\n", 0o644)
	write(t, filepath.Join(dir, "a.d", "b.yaml"), "{}\n", 0o644)
	cfg, _ := config.Load(config.Options{File: filepath.Join(dir, "a.yaml")})
	if got, want := cfg.Node.DataDir, filepath.Join(dir, "data"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	write(t, filepath.Join(dir, "a.d", "b.yaml"), "node: {data_dir: data}\n", 0o644)
	cfg, _ = config.Load(config.Options{File: filepath.Join(dir, "a.yaml")})
	if got, want := cfg.Node.DataDir, filepath.Join(dir, "a.d", "data"); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestOverlayChangesOneFieldAndReplacesLists(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.yaml")
	write(t, file, "accounts: {m: {streams: {S: {max_bytes: 1GiB, max_age: 1d, subjects: [a, b]}}}}\n", 0o644)
	write(t, filepath.Join(dir, "a.d", "site.yaml"), "accounts: {m: {streams: {S: {max_bytes: 2GiB, subjects: [c]}}}}\n", 0o644)
	cfg, l := config.Load(config.Options{File: file})
	if len(l) > 0 {
		t.Fatalf("got %v, want no problems", l)
	}
	got := config.APIValues(cfg.Accounts["m"].Streams["S"])
	if text := fmt.Sprint(got); text != "map[max_age:86400000000000 max_bytes:2147483648 subjects:[c]]" {
		t.Errorf("got %s, want one field and the list replaced", text)
	}
	if got, want := cfg.KeyAt("accounts", "m", "streams", "S").String(), file+":1:26"; got != want {
		t.Errorf("got %s for the stream's name, want the first place %s", got, want)
	}
}

func TestEnvironmentChangesWhatTheFilesDeclare(t *testing.T) {
	const text = `
accounts:
  shop:
    streams:
      ORDERS-EU: {max_bytes: 1GiB, subjects: [a], consumers: {pack: {}}}
      dup-x: {max_bytes: 1GiB}
      DUP_X: {max_bytes: 1GiB, subjects: [z]}
`
	cfg, l := load(t, text,
		"HOLDFAST_ACCOUNTS__SHOP__STREAMS__ORDERS_EU__MAX_BYTES=2GiB", "HOLDFAST_ACCOUNTS__shop__streams__orders-eu__subjects=[b, 'c.>']",
		"HOLDFAST_ACCOUNTS__SHOP__STREAMS__ORDERS_EU__CONSUMERS__PACK__MAX_DELIVER=7", "HOLDFAST_NODE__TAGS=x, y",
		"HOLDFAST_ACCOUNTS__SHOP__STREAMS__ORDERS_EU__ALLOW_DIRECT=true", "HOLDFAST_LISTEN__HTTP=", "HOLDFAST_NODE__NAME=5",
		"HOLDFAST_OPTS=x", "HOLDFAST_CONFIG=y", "HOLDFAST_PORT=tcp://1.2.3.4", "HOLDFASTING__X=1")
	if len(l) > 0 {
		t.Fatalf("got %v, want no problems", l)
	}
	s := cfg.Accounts["shop"].Streams["ORDERS-EU"]
	got := fmt.Sprint(config.APIValues(s), config.APIValues(s.Consumers["pack"]), cfg.Node.Tags, cfg.Listen.HTTP == "") + " " + cfg.Node.Name
	if want := "map[allow_direct:true max_bytes:2147483648 subjects:[b c.>]] map[max_deliver:7] [x y] true 5"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestEnvironmentThatDoesNotFitIsAnError(t *testing.T) {
	const text = "accounts: {shop: {streams: {A-B: {max_bytes: 1GiB}, a_b: {max_bytes: 1GiB}, OTHER: {max_bytes: 1GiB}}}}\n"
	for variable, want := range map[string]string{
		"HOLDFAST_ACCOUNTS__SHOP__STREAMS__A_B__MAX_BYTES=1GiB":    "could be any of A-B, a_b",
		"HOLDFAST_ACCOUNTS__SHOP__STREAMS__NEW__MAX_BYTES=1GiB":    "not a stream that the files declare",
		"HOLDFAST_ACCOUNTS__SHOP__STREAMS__OTHR__MAX_BYTES=1GiB":   `did you mean "OTHER"`,
		"HOLDFAST_ACCOUNTS__NEW__LIMITS__DISK=1GiB":                "can't create an account",
		"HOLDFAST_ACCOUNTS__SHOP__USERS__X__ROLE=admin":            "declare the user in the file",
		"HOLDFAST_ACCOUNTS__SHOP__STREAMS__OTHER__MAX_BYTS=1GiB":   `did you mean "max_bytes"`,
		"HOLDFAST_ACCOUNTS__SHOP__STREAMS__OTHER__MAX_BYTES=lots":  "not a size",
		"HOLDFAST_ACCOUNTS__SHOP__STREAMS__OTHER__SUBJECTS=a..b":   "empty token",
		"HOLDFAST_ACCOUNTS__SHOP__STREAMS__OTHER__ALLOW_DIRECT=ja": "neither true nor false",
		"HOLDFAST_NODE=x":                    "a group of keys",
		"HOLDFAST_STORAGE__DURABILITY=often": "not possible here",
		"HOLDFAST_STORAGE__LIMIT__X=1":       "is not a key of storage.limit",
		"HOLDFAST_TYPO__X=1":                 "is not a key",
		"HOLDFAST_LISTEN__CLIENT=:4222":      "names no host",
		"HOLDFAST_LISTEN__MQTT=1.2.3.4:1883": "not in this version",
		"HOLDFAST_UPLINK=x":                  "a group of keys",
		"HOLDFAST_NATS={port: 4}":            "",
		"HOLDFAST_NODE__TAGS=[a, [b]]":       "not a list",
	} {
		cfg, l := load(t, text, variable)
		name, _, _ := strings.Cut(variable, "=")
		if want == "" {
			if got := cfg.NATSKeys(); len(l) > 0 || len(got) != 1 || got[0].Pos.Origin != "$"+name {
				t.Errorf("%s: got %v, %v, want the key from the variable", variable, got, l)
			}
			continue
		}
		if len(l) != 1 || l[0].Pos.Origin != "$"+name || !strings.Contains(l[0].What+" "+l[0].Fix, want) {
			t.Errorf("%s: got %v, want one problem with %q", variable, []diag.Problem(l), want)
		}
	}
}

func TestListFromAVariableHasItsPlace(t *testing.T) {
	const text = "accounts: {m: {streams: {S: {max_bytes: 1GiB, subjects: [a]}, T: {max_bytes: 1GiB, subjects: [b]}}}}\n"
	_, l := load(t, text, "HOLDFAST_ACCOUNTS__M__STREAMS__S__SUBJECTS=b")
	if len(l) != 1 || !strings.Contains(l[0].What, "$HOLDFAST_ACCOUNTS__M__STREAMS__S__SUBJECTS") {
		t.Errorf("got %v, want the variable named and not the item it replaced", l)
	}
}

func TestVariableAndItsTwinAreRefused(t *testing.T) {
	_, l := load(t, "node: {}\n", "HOLDFAST_NODE__NAME=a", "HOLDFAST_node__name=b")
	if len(l) != 1 || l[0].Code != diag.CodeEnvironment {
		t.Errorf("got %v, want one problem", l)
	}
}

func TestFileThatCannotBeReadIsAProblem(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "f.yaml"), "node: {}\n", 0o644)
	write(t, filepath.Join(dir, "f.d"), "not a directory", 0o644)
	for _, file := range []string{"missing.yaml", ".", "f.yaml"} {
		_, l := config.Load(config.Options{File: filepath.Join(dir, file)})
		if len(l) != 1 || l[0].Code != diag.CodeUnreadable {
			t.Errorf("%s: got %v, want one problem", file, l)
		}
		complete(t, l)
	}
}

func TestBrokenOverlayDoesNotHideOtherProblems(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.yaml"), "nod: {}\n", 0o644)
	write(t, filepath.Join(dir, "a.d", "1.yaml"), "node: [\n", 0o644)
	write(t, filepath.Join(dir, "a.d", "2.yaml"), "log: {level: loud}\n", 0o644)
	_, l := config.Load(config.Options{File: filepath.Join(dir, "a.yaml")})
	var got []diag.Code
	for _, p := range l {
		got = append(got, p.Code)
	}
	if diff := cmp.Diff([]diag.Code{diag.CodeSyntax, diag.CodeValue, diag.CodeUnknownKey}, got); diff != "" {
		t.Errorf("got other problems (-want +got):\n%s", diff)
	}
}

func TestRefusedValueHasNoFollowOn(t *testing.T) {
	for _, text := range []string{
		"accounts: {m: {streams: {S: {max_bytes: lots}}}}",
		"accounts: {m: {streams: {S: {max_bytes: 1GiB, discard: nu, allow_msg_schedules: true}}}}",
		"accounts: {m: {streams: {S: {max_bytes: 1GiB, subjects: [a..b], consumers: {c: {filter_subject: x}}}}}}",
		"accounts: {m: {streams: {S: {max_bytes: 1GiB, retention: workqueue, consumers: {a: {filter_subject: a..b}, b: {filter_subject: S}}}}}}",
		"accounts: {m: {streams: {S: {max_bytes: 1GiB, consumers: {c: {deliver_policy: by_start_sequence, opt_start_seq: -1}}}}}}",
		"accounts: {m: {streams: {S: {max_bytes: 1GiB, consumers: {c: {deliver_subject: a..b, flow_control: true, idle_heartbeat: 5s}}}}}}",
		"accounts: {m: {streams: {S: {max_bytes: 1GiB, discard_new_per_subject: true, max_msgs_per_subject: 0}}}}",
		"accounts: {m: {streams: {S: {max_bytes: 1GiB, subject_transform: {src: a, dest: 5}}}}}",
		"storage: {durability: often, sync_interval: 5s}",
		"listen: {client: nowhere, http: \"127.0.0.1:4222\"}",
	} {
		if _, l := load(t, text); len(l) != 1 {
			t.Errorf("%s: got %d problems %v, want one", text, len(l), []diag.Problem(l))
		}
	}
}

func TestVolumeOfUnknownSizeIsAWarning(t *testing.T) {
	o := config.Options{Volume: func(string) (int64, error) { return 0, errors.New("no such file") }}
	_, l := config.Load(o)
	if len(l) != 1 || l[0].Severity != diag.Warning || !strings.Contains(l[0].What, "no such file") {
		t.Errorf("got %v, want one warning", l)
	}
	complete(t, l)
}

func TestDefaultBudgetIsReportedAtTheLargestStream(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f.yaml")
	write(t, file, "accounts: {m: {streams: {A: {max_bytes: 1GiB}, B: {max_bytes: 90GiB}}}}\n", 0o644)
	_, l := config.Load(options(file))
	if len(l) != 1 || l[0].Path != "accounts.m.streams.B.max_bytes" || l[0].Code != diag.CodeBudget {
		t.Errorf("got %v, want the largest stream named", l)
	}
}

func TestNATSKeysHaveValuesAndPlaces(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f.yaml")
	write(t, file, "log: {}\nnats: |\n  # limits\n  max_payload: 8MB\n\n  ping_interval: 30s\r\n  max_connections: 100\n  max_x: {a: 1, b: [c]}\n", 0o644)
	cfg, l := config.Load(options(file))
	if len(l) > 0 {
		t.Fatalf("got %v, want no problems", l)
	}
	var got []string
	for _, k := range cfg.NATSKeys() {
		got = append(got, fmt.Sprintf("%s %T %v %d:%d", k.Name, k.Value, k.Value, k.Pos.Line, k.Pos.Col))
	}
	want := []string{"max_connections int64 100 7:20", "max_payload string 8MB 4:16", "max_x map[string]interface {} map[a:1 b:[c]] 8:3", "ping_interval string 30s 6:18"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("got other keys (-want +got):\n%s", diff)
	}
}

func TestEmptyFilesSetNothing(t *testing.T) {
	for _, text := range []string{"", "\n", "# only a comment\n", "---\n", "{}", "null\n", "\ufeffnode: {}\n"} {
		if _, l := load(t, text); len(l) > 0 {
			t.Errorf("%q: got %v, want no problems", text, l)
		}
	}
}

func TestThousandStreamsLoad(t *testing.T) {
	var b strings.Builder
	b.WriteString("accounts:\n  m:\n    streams:\n")
	for i := range 1000 {
		fmt.Fprintf(&b, "      S%d:\n        subjects: [\"s.%d.>\", \"*.%d.x\"]\n        max_bytes: 1MiB\n        retention: workqueue\n        consumers:\n", i, i, i+100000)
		fmt.Fprintf(&b, "          a: {filter_subject: \"s.%d.a\"}\n          b: {filter_subject: \"s.%d.b\"}\n", i, i)
	}
	text := strings.ReplaceAll(b.String(), "\"*.", "\"y.*.")
	cfg, l := load(t, text)
	if len(l) > 0 || len(cfg.Accounts["m"].Streams) != 1000 {
		t.Errorf("got %d streams, %v, want 1000 and no problems", len(cfg.Accounts["m"].Streams), l)
	}
}

func TestThousandStreamsWithOneSubjectGiveOneProblemEach(t *testing.T) {
	var b strings.Builder
	b.WriteString("accounts: {m: {streams: {")
	for i := range 1000 {
		fmt.Fprintf(&b, "S%d: {subjects: [a], max_bytes: 1MiB},\n", i)
	}
	b.WriteString("}}}")
	if _, l := load(t, b.String()); len(l) != 999 {
		t.Errorf("got %d problems, want 999", len(l))
	}
}

func TestLoadWritesNothing(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "f.yaml"), "node: {data_dir: data}\n", 0o644)
	_, _ = config.Load(options(filepath.Join(dir, "f.yaml")))
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("got %v, %v, want nothing but the file", entries, err)
	}
}
