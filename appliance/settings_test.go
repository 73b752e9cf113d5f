// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/appliance/diag"
)

func TestMemoryStreamsGetAQuarterOrWhatWasPromised(t *testing.T) {
	const gib = 1 << 30
	for text, want := range map[string]int64{
		"accounts: {a: {}}": 2 * gib,
		"accounts: {a: {limits: {memory: 1GiB}}, b: {limits: {memory: 500MiB}}}": 2 * gib,
		"accounts: {a: {limits: {memory: 3GiB}}, b: {limits: {memory: 4GiB}}}":   7 * gib,
		"accounts: {a: {limits: {memory: unlimited}}}":                           2 * gib,
	} {
		cfg := options(t, t.TempDir(), text, &logged{}).Config
		if got := memoryStreams(cfg, 8*gib); got != want {
			t.Errorf("%s: got %d, want %d", text, got, want)
		}
	}
}

func TestLimitsLeaveRoomForOurOwnConnections(t *testing.T) {
	n := config.Count(5)
	if got := limits(config.AccountLimits{Connections: &n}, 1).Connections; got != 7 {
		t.Errorf("got %d connections, want 5 and our own two", got)
	}
	if got := limits(config.AccountLimits{}, 1); got.Connections != config.Unlimited || got.DiskBytes != config.Unlimited {
		t.Errorf("got %+v, want no limits where the file sets none", got)
	}
}

func TestAnAccountWithoutUsersHasAnAdmin(t *testing.T) {
	cfg := options(t, t.TempDir(), shop+"  other: {}\n", &logged{}).Config
	var got []string
	for _, a := range identityAccounts(cfg) {
		for _, u := range a.Users {
			got = append(got, a.Name+"/"+u.Name)
		}
	}
	if want := []string{"other/admin", "shop/checkout", "shop/packer"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestDigestTellsFilesApart(t *testing.T) {
	home := t.TempDir()
	a := digest(options(t, home, shop, &logged{}).Config)
	if again := digest(options(t, home, shop, &logged{}).Config); again != a {
		t.Errorf("got %s and %s for one file, want one digest", a, again)
	}
	if b := digest(options(t, home, shop+"\n", &logged{}).Config); b == a {
		t.Errorf("got %s for both files, want two digests", b)
	}
}

func TestLoadConfigAsksTheServerAboutItsOwnKeys(t *testing.T) {
	file := filepath.Join(t.TempDir(), "holdfast.yaml")
	write(t, file, "nats: |\n  max_payload: banana\n  ping_interval: 10s\n")
	_, l := LoadConfig(config.Options{File: file})
	if len(l) != 1 || l[0].Code != diag.CodeEngineConfig || l[0].Pos.Line != 2 || l[0].Path != "nats.max_payload" {
		t.Errorf("got %v, want one %s for nats.max_payload in line 2", l, diag.CodeEngineConfig)
	}
	write(t, file, "nats: |\n  max_payload: 2MB\n  ping_interval: 10s\n")
	if _, l := LoadConfig(config.Options{File: file}); len(l) > 0 {
		t.Errorf("got %v, want no problem", l)
	}
}

func TestSocketIsWhereSystemdMadeADirectoryForIt(t *testing.T) {
	runtime := t.TempDir()
	t.Setenv("RUNTIME_DIRECTORY", runtime)
	home := t.TempDir()
	a := open(t, options(t, home, shop, &logged{}))
	if got, want := a.Addresses()["admin"], filepath.Join(runtime, "admin.sock"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	// Whoever knows the directory only finds it as well.
	found, err := filepath.EvalSymlinks(FindSocket(filepath.Join(home, "data")))
	if want := filepath.Join(runtime, "admin.sock"); err != nil || found != want {
		t.Errorf("got %s, %v for the directory, want %s", found, err, want)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	// The next start may be by hand.
	t.Setenv("RUNTIME_DIRECTORY", "")
	a = open(t, options(t, home, shop, &logged{}))
	if got, want := a.Addresses()["admin"], filepath.Join(home, "data", "admin.sock"); got != want {
		t.Errorf("got %s, want %s for a node that is not the service", got, want)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
