// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/conf"
	"github.com/nats-io/nkeys"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

var update = flag.Bool("update", false, "write the golden files")

func TestRender(t *testing.T) {
	base := Settings{
		NodeName:       "edge-17",
		ClientHost:     "127.0.0.1",
		ClientPort:     4222,
		StoreDir:       "/var/lib/holdfast",
		ResolverDir:    "/var/lib/holdfast/accounts",
		MaxStoreBytes:  80 << 30,
		MaxMemoryBytes: 64 << 20,
		SyncAlways:     true,
		OperatorJWT:    "eyJ.operator.jwt",
		SystemAccount:  "ASYS",
		Preload:        map[string]string{"ASYS": "eyJ.sys.jwt", "AAPP": "eyJ.app.jwt"},
	}
	full := base
	full.Version = "0.1.0"
	full.ClientHost, full.ClientPort = "::1", 0
	full.SyncAlways, full.SyncInterval = false, 1500*time.Millisecond
	full.Domain = "plant-7"
	full.Tags = []string{"zone:a", `odd "tag"`}
	full.StoreDir = `C:\ProgramData\Holdfast`
	full.Extra = []ExtraKey{
		{"ping_interval", "20s"},
		{"max_payload", "8MB"},
		{"MAX_CONNECTIONS", int64(100)},
		{"write_deadline", 5 * time.Second},
		{"no_fast_producer_stall", true},
		{"jetstream", "enabled"},
	}
	for name, s := range map[string]Settings{"minimal": base, "full": full} {
		t.Run(name, func(t *testing.T) {
			got := Render(s)
			file := filepath.Join("testdata", name+".conf")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("configuration differs (-want +got), run with -update if it should:\n%s", diff)
			}
		})
	}
}

// A value must not be able to end its string and set a key of its own.
func TestQuotedStringsComeBackFromTheParser(t *testing.T) {
	for _, want := range []string{
		"", "plain", "with space", `quote " backslash \`, "line\nbreak\r\ttab", "nul\x00byte", "$variable", "true",
		"# no comment", `"} jetstream: false`, "umlaut ä 日本", "\x7f",
	} {
		m, err := conf.Parse("a: " + quote(want) + "\nb: 1\n")
		if err != nil {
			t.Errorf("%q: %v", want, err)
			continue
		}
		if got := m["a"]; got != want || m["b"] != int64(1) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestRenderedTextHasNoPrivateKey(t *testing.T) {
	r := newRealm(t, "shop")
	text := Render(r.settings(t))
	for _, k := range append([]nkeys.KeyPair{r.operator}, r.keys["SYS"], r.keys["shop"]) {
		seed, err := k.Seed()
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(text, string(seed)) {
			t.Errorf("got a seed in the configuration")
		}
	}
}

func TestCheckTakesWhatTheServerTakes(t *testing.T) {
	r := newRealm(t, "shop")
	s := r.settings(t)
	s.Extra = []ExtraKey{
		{"max_payload", "8MB"}, {"max_pending", "64MB"}, {"ping_interval", "20s"}, {"ping_max", 3}, {"max_connections", 10},
		{"write_timeout", "close"}, {"disable_sublist_cache", false}, {"max_control_line", "4KB"}, {"max_subscriptions", 7},
		{"max_sub_tokens", 8}, {"write_deadline", "5s"}, {"max_closed_clients", 9}, {"connect_error_reports", 1},
		{"reconnect_error_reports", 1}, {"no_fast_producer_stall", true},
	}
	if got, want := len(s.Extra), len(allowedKeys()); got != want {
		t.Errorf("got %d of %d allowed keys in this test", got, want)
	}
	before := runtime.NumGoroutine()
	if err := Check(s); err != nil {
		t.Fatalf("got %v, want no error", err)
	}
	if _, err := os.Stat(s.ResolverDir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v for the resolver's directory, want Check to touch no file", err)
	}
	eventually(t, func() error {
		if got := runtime.NumGoroutine(); got > before {
			return errors.New("goroutines are left over")
		}
		return nil
	})
}

func TestCheckNamesWhatTheServerRefuses(t *testing.T) {
	r := newRealm(t, "shop")
	for name, c := range map[string]struct {
		change func(*Settings)
		want   string
	}{
		"payload above pending": {
			func(s *Settings) { s.Extra = []ExtraKey{{"max_payload", "100MB"}, {"max_pending", "1MB"}} },
			"max_payload (104857600) cannot be higher than max_pending (1048576)",
		},
		"value out of range": {
			func(s *Settings) { s.Extra = []ExtraKey{{"max_sub_tokens", 1000}} },
			"max_sub_tokens: 1000: max_sub_tokens value is too big",
		},
		"not a size": {
			func(s *Settings) { s.Extra = []ExtraKey{{"max_payload", "much"}} },
			`nats.max_payload: got "much", want a size such as 8MB`,
		},
		"a number for a duration": {
			func(s *Settings) { s.Extra = []ExtraKey{{"ping_interval", 20}} },
			`nats.ping_interval: got "20", want a duration such as 30s`,
		},
		"refused key": {
			func(s *Settings) { s.Extra = []ExtraKey{{"jetstream", "enabled"}} },
			"nats.jetstream: Holdfast owns it: set storage instead",
		},
		"twice": {
			func(s *Settings) { s.Extra = []ExtraKey{{"ping_max", 1}, {"Ping_Max", 2}} },
			"nats.ping_max: set twice",
		},
		"no limit": {
			func(s *Settings) { s.MaxStoreBytes = 0 },
			"needs a storage limit",
		},
		"neither sync mode": {
			func(s *Settings) { s.SyncInterval = 0 },
			"needs a sync interval",
		},
		"bad node name": {
			func(s *Settings) { s.NodeName = "two words" },
			`server_name: "two words": server name cannot contain spaces`,
		},
		"bad operator": {
			func(s *Settings) { s.OperatorJWT = "eyJx" },
			"error parsing operator JWT",
		},
		"bad account": {
			func(s *Settings) { s.Preload["AXYZ"] = "eyJx" },
			"invalid account JWT",
		},
		"grace too long": {
			func(s *Settings) { s.LameDuckGrace = time.Hour },
			"the lame duck grace must be shorter",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := r.settings(t)
			c.change(&s)
			err := Check(s)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want %q in it", err, c.want)
			}
			if diag.CodeOf(err) != diag.CodeEngineConfig || !diag.Permanent(err) {
				t.Errorf("got code %s, permanent %v, want %s, true", diag.CodeOf(err), diag.Permanent(err), diag.CodeEngineConfig)
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("got several lines: %q", err)
			}
		})
	}
}

func TestAllowedKeySaysWhatToSetInstead(t *testing.T) {
	for name, want := range map[string]string{
		"http":      "listen.http",
		"Listen":    "listen",
		"cluster":   "cluster",
		"logfile":   "log",
		"max_conn":  "max_connections",
		"max_paylo": "no such key",
	} {
		reason, ok := AllowedKey(name)
		if ok || !strings.Contains(reason, want) {
			t.Errorf("AllowedKey(%q): got %q, %v, want a reason with %q", name, reason, ok, want)
		}
	}
	if reason, ok := AllowedKey("MAX_PAYLOAD"); !ok || reason != "" {
		t.Errorf("AllowedKey(MAX_PAYLOAD): got %q, %v, want it allowed", reason, ok)
	}
}

// Reads the server's source, so that a new key of a new version is a decision.
func TestEveryServerKeyIsAllowedOrRefused(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "github.com/nats-io/nats-server/v2").Output()
	if err != nil {
		t.Fatalf("find the server's source: %v", err)
	}
	source, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(out)), "server", "opts.go"))
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := strings.Cut(string(source), "func (o *Options) processConfigFileLine(")
	body, _, _ = strings.Cut(body, "\n}\n")
	inSource := make(map[string]bool)
	for _, m := range regexp.MustCompile(`(?m)^\tcase (".*"):$`).FindAllStringSubmatch(body, -1) {
		for _, k := range strings.Split(m[1], ", ") {
			inSource[strings.Trim(k, `"`)] = true
		}
	}
	if len(inSource) < 90 {
		t.Fatalf("got %d keys in the source, want at least 90: has it changed its form?", len(inSource))
	}
	for k := range inSource {
		_, allowed := allowedKeys()[k]
		_, refused := refusedKeys()[k]
		if allowed == refused {
			t.Errorf("key %q: allowed %v and refused %v, want one of them", k, allowed, refused)
		}
	}
	for k := range allowedKeys() {
		if !inSource[k] {
			t.Errorf("key %q is allowed, but the server does not know it", k)
		}
	}
	for k := range refusedKeys() {
		if !inSource[k] {
			t.Errorf("key %q is refused, but the server does not know it", k)
		}
	}
}
