// SPDX-License-Identifier: Apache-2.0

package tune

import (
	"os"
	"slices"
	"strconv"
	"strings"
)

// knob is a setting that can be changed while everything runs. docs/tuning.md has the
// figures, and what was measured and is no knob for it makes no difference.
type knob struct {
	name, title string
	why, known  string
	// protects is for what is wanted without a measurement.
	protects bool
	// loads show the difference: the first decides, and none of the others may suffer.
	loads []string
	spots func(place) []spot
}

// spot is a knob at one place.
type spot struct {
	target string
	file   string
	// options are what may be better than what it is: where it protects there is one,
	// else a measurement decides. None is fine.
	options func(now string) []string
}

// gentle is a swappiness at which the kernel gives up caches first.
const gentle = 10

func knobs() []knob {
	return []knob{
		{
			name: "scheduler", title: "I/O scheduler of the disk",
			why:   "it decides how long an fsync waits while others write to the disk",
			known: "fsyncs while others write, docs/tuning.md: which one is best depends on the disk",
			loads: []string{LoadBusy, LoadFlush, LoadScan}, spots: schedulers,
		},
		{
			name: "read-ahead", title: "how far the kernel reads ahead",
			why:   "a node that comes back after a crash reads its blocks from one end to the other",
			known: "reading blocks, docs/tuning.md: how much is best depends on the disk",
			loads: []string{LoadScan}, spots: readAhead,
		},
		{
			name: "swappiness", title: "how soon memory of programs goes to swap",
			why:   "pages of the node that were swapped out take milliseconds each to come back, and clients see pauses",
			known: "protects from that, where there is swap; nothing that a minute could measure", protects: true, spots: swappiness,
		},
	}
}

// schedulers are all that a disk can have.
func schedulers(p place) []spot {
	var all []spot
	for _, d := range p.below.Disks {
		can := d.Schedulers()
		if len(can) < 2 {
			continue // nothing to choose
		}
		all = append(all, spot{target: d.Name, file: d.Setting("scheduler"), options: func(now string) []string {
			return slices.DeleteFunc(slices.Clone(can), func(s string) bool { return s == now })
		}})
	}
	return all
}

func readAhead(p place) []spot {
	file := p.below.Top.Setting("read_ahead_kb")
	// btrfs has one of its own for each file system.
	if value(file) == "" || p.mount.FSType == "btrfs" {
		return nil
	}
	return []spot{{target: p.below.Top.Name, file: file, options: func(now string) []string {
		return slices.DeleteFunc([]string{"128", "1024", "4096"}, func(s string) bool { return s == now })
	}}}
}

// swappiness is only of interest where something can be swapped.
func swappiness(p place) []spot {
	file := p.in.at("/proc/sys/vm/swappiness")
	if value(file) == "" || !swaps(p.in) {
		return nil
	}
	return []spot{{file: file, options: func(now string) []string {
		if n, err := strconv.Atoi(now); err == nil && n <= gentle {
			return nil
		}
		return []string{strconv.Itoa(gentle)}
	}}}
}

// swaps reports whether there is swap: /proc/swaps has a line for each below its head.
func swaps(in Input) bool {
	text, err := os.ReadFile(in.at("/proc/swaps"))
	return err == nil && strings.Count(strings.TrimSpace(string(text)), "\n") > 0
}
