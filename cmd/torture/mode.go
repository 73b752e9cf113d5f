// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
)

// mode is a node with a promise, or without.
type mode struct {
	name string
	// weak: acknowledges before it is on disk, and has to show what that costs.
	weak bool
	// grouped: most of what is acknowledged has to have gone in batches of group commit,
	// or else they were not under test.
	grouped bool
	make    func(binary, dir, data string, storage int64) (node, error)
}

func modes() []mode {
	holdfast := func(durability, group string, encrypted bool) func(string, string, string, int64) (node, error) {
		return func(binary, dir, data string, storage int64) (node, error) {
			return newHoldfast(binary, dir, data, durability, group, storage, encrypted)
		}
	}
	stock := func(sync string) func(string, string, string, int64) (node, error) {
		return func(_, dir, data string, storage int64) (node, error) { return newStock(dir, data, sync, storage) }
	}
	return []mode{
		{name: "strict", grouped: true, make: holdfast("strict", "on", false)},
		{name: "strict-alone", make: holdfast("strict", "off", false)},
		{name: "encrypted", grouped: true, make: holdfast("strict", "on", true)},
		{name: "interval", weak: true, make: holdfast("interval", "auto", false)},
		{name: "stock", weak: true, make: stock("")},
		{name: "stock-always", make: stock("always")},
	}
}

// forgives says that a finding is what the mode is known for. A node that does
// not come back, or comes back as another one, is forgiven in none.
func (m mode) forgives(k kind) bool { return m.weak && k != unstarted && k != identity }

func modesNamed(list string) ([]mode, error) {
	var out []mode
	for name := range strings.SplitSeq(list, ",") {
		found := false
		for _, m := range modes() {
			if m.name == name {
				out, found = append(out, m), true
			}
		}
		if !found {
			return nil, fmt.Errorf("read -mode: %q is none of strict, strict-alone, encrypted, interval, stock, stock-always", name)
		}
	}
	return out, nil
}
