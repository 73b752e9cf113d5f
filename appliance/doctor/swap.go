// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/shirou/gopsutil/v4/mem"
)

const (
	// littleSwapped of the node in swap does not matter.
	littleSwapped = 32 << 20
	// gentle is a swappiness at which the kernel gives up caches first.
	gentle = 10
)

// lookAtSwap finds a node whose memory is on disk. Swap that the node is not in is
// no trouble, whatever the swappiness.
func lookAtSwap(ctx context.Context, m *machine) report {
	var r report
	v, err := mem.VirtualMemoryWithContext(ctx)
	swappiness, badNumber := strconv.Atoi(m.read("/proc/sys/vm/swappiness"))
	switch {
	case err != nil || badNumber != nil:
		return skip("the kernel does not tell")
	case v.SwapTotal == 0:
		r.measured("no swap")
		return r
	}
	text := fmt.Sprintf("%s of %s used, swappiness %d", size(int64(v.SwapTotal-v.SwapFree)), size(int64(v.SwapTotal)), swappiness)
	pid := m.running(ctx)
	swapped := int64(0)
	if pid != 0 {
		swapped = m.statusOf(pid, "VmSwap")
		text += fmt.Sprintf("; %s of process %d", size(swapped), pid)
	}
	if swapped > littleSwapped && swapped > m.statusOf(pid, "VmRSS")/10 && swappiness > gentle {
		r.warn(text, "reading it back takes milliseconds for each page, so that clients see pauses", m.asRoot(m.in.tune("swappiness", "--apply", "--at-boot", "--yes")))
	}
	r.measured("%s", text)
	return r
}

// lookAtHugePages finds the one case in which they hurt a Go program: the kernel
// makes huge pages of memory that the runtime has given back, so that the process
// has more than the runtime knows of, and outgrows its limit.
func lookAtHugePages(ctx context.Context, m *machine) report {
	const dir = "/sys/kernel/mm/transparent_hugepage/"
	var r report
	mode := selected(m.read(dir + "enabled"))
	if mode == "" {
		return skip("this kernel has none")
	}
	spare := m.read(dir + "khugepaged/max_ptes_none")
	r.measured("%s, max_ptes_none %s", mode, spare)
	node, err := m.ask(ctx)
	if err != nil || mode != "always" || spare == "0" {
		return r
	}
	rss := m.statusOf(node.PID, "VmRSS")
	huge := kibibytes(m.read(fmt.Sprintf("/proc/%d/smaps_rollup", node.PID)), "AnonHugePages")
	if node.MemoryLimit <= 0 || rss <= node.MemoryLimit {
		return r // the runtime has its memory in hand, or nobody can see
	}
	evidence := fmt.Sprintf("%s%s, max_ptes_none %s; process %d uses %s, more than its own limit of %s", dir+"enabled: ", mode, spare, node.PID, size(rss), size(node.MemoryLimit))
	if huge < 0 {
		r.blind(m, evidence+", and how much of it is huge pages can't be seen")
		return r
	}
	if huge > rss/4 {
		file := "/etc/tmpfiles.d/holdfast-huge-pages.conf"
		r.warn(evidence+", "+size(huge)+" of it in huge pages", "memory that was given back comes back, until the kernel kills the node",
			m.asRoot(fmt.Sprintf("echo 0 > %s && echo 'w %s - - - - 0' > %s", quote(m.at(dir+"khugepaged/max_ptes_none")), dir+"khugepaged/max_ptes_none", quote(m.at(file)))))
	}
	return r
}

// selected is the word in brackets: "always [madvise] never".
func selected(s string) string {
	_, rest, _ := strings.Cut(s, "[")
	word, _, _ := strings.Cut(rest, "]")
	return word
}
