// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"regexp"
)

// cell is one kind of load.
type cell struct {
	name                        string
	what                        string
	publishers, window, workers int
	memory                      bool // measures what the server holds, too
}

// queueCells lists the loads.
func queueCells(only *regexp.Regexp) []cell {
	var all []cell
	for _, n := range []int{1, 2, 4, 8, 16, 64, 256} {
		all = append(all, cell{name: fmt.Sprintf("sync-%d", n), what: count(n, "synchronous publisher"), publishers: n})
	}
	all = append(all, cell{name: "async-512", what: "asynchronous, window of 512", publishers: 1, window: 512})
	for _, n := range []int{16, 64} {
		all = append(all, cell{name: fmt.Sprintf("work-%d-16", n), what: fmt.Sprintf("work queue, %d publishers, 16 workers", n), publishers: n, workers: 16})
	}
	all = append(all, cell{name: "memory", what: "work queue, 64 publishers, 16 workers", publishers: 64, workers: 16, memory: true})
	var out []cell
	for _, c := range all {
		if only.MatchString(c.name) {
			out = append(out, c)
		}
	}
	return out
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
