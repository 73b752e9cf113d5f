// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"fmt"
	"math"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/shirou/gopsutil/v4/mem"

	"github.com/holdfast-mq/holdfast/appliance/howto"
)

const (
	// leastMemory is what a node without load takes, with room for some; below
	// tightMemory a burst of messages may be too much.
	leastMemory = 64 << 20
	tightMemory = 128 << 20
)

func size(n int64) string { return humanize.IBytes(uint64(max(n, 0))) }

// lookAtMemory compares what the node may use with what it needs.
func lookAtMemory(ctx context.Context, m *machine) report {
	var r report
	v, err := mem.VirtualMemoryWithContext(ctx)
	if err != nil {
		r.find(Unknown, "can't read how much memory there is: "+err.Error(), "what can't be seen can't be judged", m.again())
		return r
	}
	pid := m.running(ctx)
	limit, where := int64(v.Total), "of the machine"
	if l, file := m.cgroupLimit(pid); l < limit {
		limit, where = l, file
	}
	rss := int64(-1)
	text := fmt.Sprintf("%s (%s)", size(limit), where)
	if pid != 0 {
		if rss = m.statusOf(pid, "VmRSS"); rss > 0 {
			text += fmt.Sprintf(", the node uses %s", size(rss))
		}
	}
	streams := m.memoryStreams()
	if streams > 0 {
		text += fmt.Sprintf(", memory streams may hold %s", size(streams))
	}
	r.measured("%s", text)
	raise := m.raiseMemory(where, max(2*tightMemory, 2*rss, 2*streams))
	const killed = "the kernel kills the node when it wants more; nothing acknowledged is lost, but it starts over"
	switch {
	case limit < leastMemory+streams:
		r.fail(text+", less than it needs", killed, raise)
	case limit < tightMemory+streams:
		r.warn(text+", which is little", killed, raise)
	case rss > limit/10*9:
		r.warn(text+": more than 90%", killed, raise)
	}
	m.lookAtRuntimeLimit(ctx, &r, pid, limit)
	return r
}

// memoryStreams is how much memory the declared streams may take.
func (m *machine) memoryStreams() int64 {
	var sum int64
	for _, a := range m.in.Config.Accounts {
		for _, s := range a.Streams {
			if s.Storage != nil && *s.Storage == "memory" && s.MaxBytes != nil && *s.MaxBytes > 0 {
				sum += int64(*s.MaxBytes)
			}
		}
	}
	return sum
}

// lookAtRuntimeLimit finds a $GOMEMLIMIT above what there is: the collector would
// begin only after the kernel has killed the node.
func (m *machine) lookAtRuntimeLimit(ctx context.Context, r *report, pid int, limit int64) {
	node, err := m.ask(ctx)
	if err != nil || node.MemoryLimit <= limit || node.MemoryLimit == math.MaxInt64 {
		return
	}
	fix := comment("unset GOMEMLIMIT where the node is started: without it, it keeps to 90%% of its limit by itself")
	if m.service() {
		fix = m.asRoot(fmt.Sprintf("sed -i '/^GOMEMLIMIT=/d' %s %s; systemctl restart holdfast", quote(m.at("/etc/default/holdfast")), quote(m.at("/etc/sysconfig/holdfast"))))
	}
	r.warn(fmt.Sprintf("the Go runtime of process %d keeps to %s (GOMEMLIMIT), and it may have only %s", pid, size(node.MemoryLimit), size(limit)),
		"memory is given back too late, and the kernel kills the node", fix)
}

// cgroupLimit is the smallest limit of the process's group and those above it, in
// either version of cgroups, and the file it is from.
func (m *machine) cgroupLimit(pid int) (limit int64, file string) {
	self := "self"
	if pid != 0 {
		self = strconv.Itoa(pid)
	}
	limit = math.MaxInt64
	smaller := func(mount, group, name string) {
		for step := group; ; step = path.Dir(step) {
			f := path.Join(mount, step, name)
			if n, err := strconv.ParseInt(m.read(f), 10, 64); err == nil && n < limit {
				limit, file = n, f
			}
			if step == "/" || step == "." {
				return
			}
		}
	}
	for line := range strings.Lines(m.read("/proc/" + self + "/cgroup")) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		switch {
		case len(f) != 3:
		case f[1] == "":
			smaller("/sys/fs/cgroup", f[2], "memory.max")
		case strings.Contains(","+f[1]+",", ",memory,"):
			smaller("/sys/fs/cgroup/memory", f[2], "memory.limit_in_bytes")
		}
	}
	return limit, file
}

// raiseMemory raises the limit of the group, in the version of cgroups that set it.
func (m *machine) raiseMemory(where string, want int64) string {
	switch {
	case !strings.HasPrefix(where, "/sys/"):
		return comment("give the machine more memory, or take load off it: %s", howto.Here().MemoryUsers())
	case strings.Contains(where, "/"+unitName+"/"):
		return m.asRoot(fmt.Sprintf("systemctl set-property holdfast MemoryMax=%d", want))
	case m.container() != "":
		return comment("start the container with more memory, at least %s", size(want))
	}
	if _, err := os.Stat(m.at(where)); err != nil {
		return comment("raise the limit of the group of the node to %s", size(want))
	}
	return m.asRoot(fmt.Sprintf("echo %d > %s", want, quote(m.at(where))))
}
