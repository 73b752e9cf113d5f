// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestUsageIsRefused(t *testing.T) {
	for _, args := range [][]string{
		{"-mode", "lax"}, {"-mode", "strict,"}, {"-fs", "btrfs"}, {"-cuts", "1"}, {"-cuts", "many"}, {"-cuts", "4,4"},
		{"-size", "299"}, {"-mode", "strict,stock", "-cuts", "4,4,4"}, {"more"},
	} {
		var stderr bytes.Buffer
		if got := run(t.Context(), args, &stderr, &stderr); got != 2 {
			t.Errorf("%q: got exit code %d, want 2\n%s", args, got, &stderr)
		}
	}
}

func TestOneNumberOfCutsIsForEachMode(t *testing.T) {
	for cuts, want := range map[string][]int{"8": {8, 8}, "8,2": {8, 2}} {
		var stderr bytes.Buffer
		o, err := parse([]string{"-mode", "strict,stock", "-cuts", cuts}, &stderr)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, o.cuts); d != "" {
			t.Errorf("-cuts %s (-want +got):\n%s", cuts, d)
		}
	}
}
