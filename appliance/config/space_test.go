// SPDX-License-Identifier: Apache-2.0

package config

import (
	"os"
	"path/filepath"
	"testing"
)

func TestKeepFreeIsAShareOfASmallVolumeOnly(t *testing.T) {
	const gib = 1 << 30
	for _, c := range []struct {
		set         Share
		total, want int64
	}{
		{Share{}, 100 * gib, 5 * gib},
		{Share{}, 160 * gib, 8 * gib},
		{Share{}, 4000 * gib, 8 * gib},
		{Share{Percent: 10}, 4000 * gib, 400 * gib},
		{Share{Bytes: gib}, 4000 * gib, gib},
	} {
		if got := (Storage{MinFree: c.set}).KeepFree(c.total); got != c.want {
			t.Errorf("%+v of %d: got %d, want %d", c.set, c.total, got, c.want)
		}
	}
}

func TestPromisedIsWhatStreamsMayTake(t *testing.T) {
	const total = 1 << 30
	for text, want := range map[string]int64{
		"{S: {subjects: [s], max_bytes: 1MiB}, T: {subjects: [t], max_bytes: 2MiB}}":                  3 << 20,
		"{S: {subjects: [s], max_bytes: 1MiB}, T: {subjects: [t], max_bytes: 2MiB, storage: memory}}": 1 << 20,
		"{S: {subjects: [s], max_bytes: 1MiB}, T: {subjects: [t], max_bytes: unlimited}}":             total / 2,
		"{S: {subjects: [s], max_bytes: 900MiB}}":                                                     total / 2,
		"{}": 0,
	} {
		file := filepath.Join(t.TempDir(), "holdfast.yaml")
		if err := os.WriteFile(file, []byte("storage: {limit: 50%}\naccounts: {a: {streams: "+text+"}}\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, _ := Load(Options{File: file})
		if got := cfg.Promised(total); got != want {
			t.Errorf("%s: got %d, want %d", text, got, want)
		}
	}
}
