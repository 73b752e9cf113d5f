// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// FuzzLoad: whatever the file and a variable hold, Load comes back with
// problems that have a place and a fix.
func FuzzLoad(f *testing.F) {
	files, _ := filepath.Glob("testdata/*/*.yaml")
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text, "HOLDFAST_NODE__TAGS=[a, b]")
	}
	f.Add(config.Starter(), "HOLDFAST_ACCOUNTS__MAIN__STREAMS__JOBS__MAX_BYTES=1GiB")
	f.Fuzz(func(t *testing.T, text []byte, variable string) {
		if bytes.Contains(text, []byte("file:")) {
			return // other files are not part of this test
		}
		file := filepath.Join(t.TempDir(), "f.yaml")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		o := options(file)
		o.Environ = []string{variable}
		cfg, l := config.Load(o)
		complete(t, l)
		diag.Print(io.Discard, l, cfg.Source)
		for _, a := range cfg.Accounts {
			for _, s := range a.Streams {
				config.APIValues(s)
			}
		}
		lines := bytes.Count(text, []byte("\n")) + 1
		for _, p := range l {
			if p.Pos.File == file && (p.Pos.Line > lines || p.Pos.Line < 0) {
				t.Errorf("got %s in a file of %d lines, want a place in it", p.Pos, lines)
			}
		}
	})
}
