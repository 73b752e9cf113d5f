// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// TestMain makes this program the command holdfast of the scripts.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"holdfast": main})
}
