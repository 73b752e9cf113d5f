// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-mq/holdfast/appliance/admin"
)

// TestFieldsOfTheDiskAreInTheDocument keeps the names there and in the JSON equal.
func TestFieldsOfTheDiskAreInTheDocument(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("..", "..", "docs", "ops", "full-disk.md"))
	if err != nil {
		t.Fatal(err)
	}
	elsewhere := []string{"file_system", "memory_used_bytes", "memory_limit_bytes", "encryption"}
	for _, typ := range []reflect.Type{reflect.TypeFor[admin.Storage](), reflect.TypeFor[admin.Latency]()} {
		for i := range typ.NumField() {
			name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			if !strings.Contains(string(doc), "`"+name+"`") && !slices.Contains(elsewhere, name) {
				t.Errorf("%s of storage is not in docs/ops/full-disk.md", name)
			}
		}
	}
}
