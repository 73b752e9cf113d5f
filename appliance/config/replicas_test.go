// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestCopiesFitTheNodes(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(strings.Repeat("s", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	_, l := load(t, `cluster: {name: c, listen: "0.0.0.0:6222", peers: [n1:6222, n2:6222, n3:6222], secret: "file:`+secret+`"}
accounts:
  shop:
    streams:
      FITS: {subjects: [a], max_bytes: 1MiB, num_replicas: 3}
      AUTO: {subjects: [b], max_bytes: 1MiB, consumers: {c: {num_replicas: 3}}}
      MANY: {subjects: [c], max_bytes: 1MiB, num_replicas: 5}
`)
	var got []string
	for _, p := range l {
		if strings.Contains(p.Path, "num_replicas") {
			got = append(got, p.Path+": "+p.What+": "+p.Fix)
		}
	}
	want := []string{"accounts.shop.streams.MANY.num_replicas: 3 nodes can't keep 5 copies: write num_replicas: auto, or at most 3"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
