// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// wantSameFromTexts loads a file from disk, and once more from its texts when
// there is nothing on disk any more.
func wantSameFromTexts(t *testing.T, o config.Options, remove func()) {
	t.Helper()
	disk, fromDisk := config.Load(o)
	texts, unread := config.ReadTexts(o.File)
	remove()
	o.Texts = texts
	memory, fromTexts := config.Load(o)
	fromTexts = append(unread, fromTexts...)
	fromTexts.Sort()

	if diff := cmp.Diff(fromDisk, fromTexts); diff != "" {
		t.Errorf("got other problems (-disk +texts):\n%s", diff)
	}
	if diff := cmp.Diff(disk.Files(), memory.Files()); diff != "" {
		t.Errorf("got other files (-disk +texts):\n%s", diff)
	}
	// Positions and the texts for excerpts are in what is not exported.
	if !reflect.DeepEqual(disk, memory) {
		t.Errorf("got another configuration from texts %+v, want %+v as from disk", memory, disk)
	}
}

func TestTextsLoadAsTheFilesTheyWereReadFrom(t *testing.T) {
	files, err := filepath.Glob("testdata/*/*.yaml")
	if err != nil || len(files) < 10 {
		t.Fatalf("got %d fixtures, %v, want all of them", len(files), err)
	}
	for _, f := range files {
		t.Run(strings.ReplaceAll(f, "/", "-"), func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "etc")
			overlays, err := filepath.Glob(strings.TrimSuffix(f, ".yaml") + ".d/*")
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range append(overlays, f) {
				text, err := os.ReadFile(name)
				if err != nil {
					t.Fatal(err)
				}
				at, err := filepath.Rel(filepath.Dir(f), name)
				if err != nil {
					t.Fatal(err)
				}
				write(t, filepath.Join(dir, at), string(text), 0o644)
			}
			wantSameFromTexts(t, options(filepath.Join(dir, filepath.Base(f))), func() {
				if err := os.RemoveAll(dir); err != nil {
					t.Fatal(err)
				}
			})
		})
	}
}

func TestTextsOfNoFileAreTheStarter(t *testing.T) {
	wantSameFromTexts(t, options(""), func() {})
	if cfg, _ := config.Load(options("")); len(cfg.Files()) > 0 {
		t.Errorf("got files %v, want none for the starter", cfg.Files())
	}
}

func TestTextsLeaveOutWhatCannotBeRead(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "f.yaml"), "nod: {}\n", 0o644)
	write(t, filepath.Join(dir, "f.d"), "not a directory", 0o644)
	for _, file := range []string{"missing.yaml", ".", "f.yaml"} {
		o := options(filepath.Join(dir, file))
		if _, l := config.ReadTexts(o.File); len(l) != 1 || l[0].Code != diag.CodeUnreadable {
			t.Errorf("%s: got %v, want one problem", file, []diag.Problem(l))
		}
		wantSameFromTexts(t, o, func() {})
	}
}

func TestTextsWinOverTheFilesOnDisk(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "etc", "f.yaml")
	write(t, file, "node: {data_dir: disk}\n", 0o644)
	write(t, filepath.Join(dir, "etc", "f.d", "a.yaml"), "log: {level: debug}\n", 0o644)
	cfg, l := config.Load(config.Options{File: file, Texts: []config.Text{
		{Name: file, Data: []byte("node: {data_dir: text}\n")},
		{Name: filepath.Join(dir, "other", "b.yaml"), Data: []byte("listen:\n  tls: {mode: files, cert: tls.crt, key: tls.key}\n")},
	}})
	if len(l) > 0 {
		t.Fatalf("got %v, want no problems", []diag.Problem(l))
	}
	got := []string{cfg.Node.DataDir, cfg.Log.Level, cfg.Listen.TLS.Cert, cfg.At("listen", "tls", "cert").String()}
	want := []string{
		filepath.Join(dir, "etc", "text"), "info", filepath.Join(dir, "other", "tls.crt"),
		filepath.Join(dir, "other", "b.yaml") + ":2:28",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("got other values (-want +got):\n%s", diff)
	}
	if cfg, _ := config.Load(config.Options{File: file, Texts: []config.Text{}}); cfg.Node.DataDir != "/var/lib/holdfast" {
		t.Errorf("no texts: got data_dir %q, want the default", cfg.Node.DataDir)
	}
}
