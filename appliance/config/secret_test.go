// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/appliance/diag"
)

const canary = "hunter2-canary"

// withSecret loads a configuration whose token is the canary; its path holds
// the canary too, so that not even the path is printed.
func withSecret(t *testing.T, mode os.FileMode) (*config.Config, diag.List) {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, canary), canary+"\n", mode)
	file := filepath.Join(dir, "holdfast.yaml")
	write(t, file, "listen: {http_token: file:"+canary+"}\n", 0o644)
	return config.Load(config.Options{File: file})
}

func write(t *testing.T, file, text string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, mode); err != nil { // past the umask
		t.Fatal(err)
	}
}

func TestSecretIsRevealedOnlyOnRequest(t *testing.T) {
	cfg, l := withSecret(t, 0o600)
	if len(l) > 0 {
		t.Fatalf("got %v, want no problems", l)
	}
	got, err := cfg.Listen.HTTPToken.Reveal()
	if err != nil || got != canary {
		t.Errorf("got %q, %v, want the secret without its line end", got, err)
	}
}

func TestSecretNeverPrintsItself(t *testing.T) {
	cfg, _ := withSecret(t, 0o600)
	s := cfg.Listen.HTTPToken
	nested := struct {
		Public config.Secret
		hidden config.Secret
		Map    map[string]config.Secret
		List   []*config.Secret
		Listen config.Listen
	}{s, s, map[string]config.Secret{"a": s}, []*config.Secret{&s}, cfg.Listen}
	var out bytes.Buffer
	for _, v := range []any{s, &s, nested, &nested, cfg.Listen} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			fmt.Fprintf(&out, verb+"\n", v)
		}
		if err := json.NewEncoder(&out).Encode(v); err != nil {
			t.Errorf("got %v, want JSON", err)
		}
		if err := yaml.NewEncoder(&out).Encode(v); err != nil {
			t.Errorf("got %v, want YAML", err)
		}
		slog.New(slog.NewTextHandler(&out, nil)).Info("m", "v", v)
		slog.New(slog.NewJSONHandler(&out, nil)).Info("m", "v", v)
	}
	fmt.Fprint(&out, config.APIValues(struct {
		Token *config.Secret `key:"token"`
	}{&s}))
	for i, line := range strings.Split(out.String(), "\n") {
		if strings.Contains(line, canary) {
			t.Errorf("output %d: got %q, want the secret and its path hidden", i, line)
		}
	}
	if !strings.Contains(out.String(), "[redacted]") {
		t.Error("got no [redacted], want it in place of the secret")
	}
}

func TestSecretFileThatOthersCanReadIsRefused(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("skipping: file modes do not say who can read on Windows")
	}
	for mode, bad := range map[os.FileMode]bool{0o600: false, 0o400: false, 0o640: false, 0o644: true, 0o660: true, 0o604: true} {
		cfg, l := withSecret(t, mode)
		_, err := cfg.Listen.HTTPToken.Reveal()
		if got := len(l) == 1 && l[0].Code == diag.CodeSecretFile && strings.Contains(l[0].Fix, "chmod 0600"); got != bad || (err != nil) != bad {
			t.Errorf("mode %04o: got %v and %v, want refused %t", mode, l, err, bad)
		}
		complete(t, l)
	}
}

func TestSecretFileOfSystemdIsTrusted(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "token"), canary, 0o644)
	t.Setenv("CREDENTIALS_DIRECTORY", dir)
	_, l := config.Load(config.Options{Environ: []string{"HOLDFAST_LISTEN__HTTP_TOKEN=file:" + dir + "/token"}})
	if len(l) > 0 {
		t.Errorf("got %v, want no problems", l)
	}
}

func TestSecretThatCannotBeReadSaysWhy(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "large"), strings.Repeat("x", 65<<10), 0o600)
	for path, want := range map[string]string{"missing": "no such file", ".": "not a regular file", "large": "larger than 64 KiB"} {
		_, l := config.Load(config.Options{Environ: []string{"HOLDFAST_LISTEN__HTTP_TOKEN=file:" + filepath.Join(dir, path)}})
		if len(l) != 1 || l[0].Code != diag.CodeSecretFile || !strings.Contains(l[0].What, want) || l[0].Pos.Origin != "$HOLDFAST_LISTEN__HTTP_TOKEN" {
			t.Errorf("%s: got %v, want %q", path, l, want)
		}
		complete(t, l)
	}
	write(t, filepath.Join(dir, "empty"), "\n", 0o600)
	cfg, _ := config.Load(config.Options{Environ: []string{"HOLDFAST_LISTEN__HTTP_TOKEN=file:" + filepath.Join(dir, "empty")}})
	if _, err := cfg.Listen.HTTPToken.Reveal(); diag.CodeOf(err) != diag.CodeSecretFile {
		t.Errorf("got %v, want an empty secret refused", err)
	}
}

func TestSecretWrittenOutIsNeverEchoed(t *testing.T) {
	for _, text := range []string{
		"listen: {http_token: " + canary + "}",
		"listen:\n  http_token:\n    " + canary,
		"listen:\n  http_token: |\n    " + canary,
		"listen:\n  http_token: [" + canary + "]",
		"listen:\n  http_token: {a: " + canary + "}",
		"listen:\n  http_tokn: " + canary,
		"listen: {http_tokn: " + canary + ", tsl: 4}",
		"password: " + canary,
		"listen: {http_token: " + canary,
	} {
		file := filepath.Join(t.TempDir(), "holdfast.yaml")
		write(t, file, text, 0o644)
		cfg, l := config.Load(config.Options{File: file})
		var out bytes.Buffer
		diag.Print(&out, l, cfg.Source)
		if len(l) == 0 || strings.Contains(out.String(), canary) {
			t.Errorf("%q: got %s, want a problem that does not show the secret", text, out.String())
		}
	}
	_, l := config.Load(config.Options{Environ: []string{"HOLDFAST_LISTEN__HTTP_TOKEN=" + canary}})
	if len(l) != 1 || strings.Contains(l.Error(), canary) {
		t.Errorf("got %v, want a problem that does not show the secret", l)
	}
}

func TestAShortClusterSecretIsRefused(t *testing.T) {
	for text, want := range map[string]bool{strings.Repeat("x", 31): true, strings.Repeat("x", 32): false} {
		file := filepath.Join(t.TempDir(), "secret")
		if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, l := load(t, "cluster: {name: c, peers: [a:1, b:1, c:1], secret: \"file:"+file+"\"}\n")
		if got := l.Err() != nil; got != want || strings.Contains(fmt.Sprint(l), text) {
			t.Errorf("%d characters: got %v, want refused %t, and not what it is", len(text), l, want)
		}
	}
}
