// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

func TestReadAheadReturnsEachFileWholeAndUsesMemoryAgain(t *testing.T) {
	dir := t.TempDir()
	path := func(n int) string { return filepath.Join(dir, fmt.Sprint(n)) }
	var numbers []int
	for n, size := range []int{10, 0, 5, 1000, 7} {
		if err := os.WriteFile(path(n), bytes.Repeat([]byte{byte(n)}, size), 0o600); err != nil {
			t.Fatal(err)
		}
		numbers = append(numbers, n)
	}
	a := readAhead(numbers, path)
	for _, n := range numbers {
		got, err := a.next()
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(path(n))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("file %d: got %d bytes, %v, want %d", n, len(got), err, len(want))
		}
		if n == 3 {
			got = nil // kept by somebody
		}
		a.giveBack(got)
	}
	a.stop()
}

func TestReadAheadEndsWithAnErrorAndWithoutAReader(t *testing.T) {
	dir := t.TempDir()
	a := readAhead([]int{1, 2}, func(n int) string { return filepath.Join(dir, fmt.Sprint(n)) })
	if _, err := a.next(); !os.IsNotExist(err) {
		t.Errorf("got %v, want that the file is not there", err)
	}
	a.stop()
	if err := os.WriteFile(filepath.Join(dir, "1"), make([]byte, 100), 0o600); err != nil {
		t.Fatal(err)
	}
	readAhead([]int{1, 1, 1, 1}, func(int) string { return filepath.Join(dir, "1") }).stop()
}
