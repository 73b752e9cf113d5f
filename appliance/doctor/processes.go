// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"fmt"
	"strings"

	"github.com/shirou/gopsutil/v4/process"

	"github.com/holdfast-mq/holdfast/appliance/howto"
)

// running is the process id of the node, 0 when there is none or none can be seen.
func (m *machine) running(ctx context.Context) int {
	if node, err := m.ask(ctx); err == nil {
		return node.PID
	}
	if pid := m.lockHolder(); pid != 0 {
		return pid
	}
	if m.service() {
		return m.mainPID(ctx)
	}
	return 0
}

// mainPID is the process of the unit, which everybody may see.
func (m *machine) mainPID(ctx context.Context) int {
	pids, err := process.PidsWithContext(ctx)
	if err != nil {
		return 0
	}
	for _, pid := range pids {
		if m.unitOf(int(pid)) == unitName {
			return int(pid)
		}
	}
	return 0
}

// unitOf is the systemd unit of a service that a process belongs to, "" when it is
// none of this machine's: what runs in a container has the units of another systemd.
func (m *machine) unitOf(pid int) string {
	const ofSystemd, unified = "name=systemd", ""
	init, groups := m.groupsOf(1), m.groupsOf(pid)
	for _, hierarchy := range []string{ofSystemd, unified} {
		group, ok := groups[hierarchy]
		if !ok {
			continue
		}
		group = strings.TrimPrefix(group, strings.TrimSuffix(init[hierarchy], "/init.scope"))
		for step := range strings.SplitSeq(strings.Trim(group, "/"), "/") {
			if strings.HasSuffix(step, ".slice") {
				continue
			}
			// A session of a person hangs below user@1000.service.
			if strings.HasSuffix(step, ".service") && !strings.HasPrefix(step, "user@") {
				return step
			}
			break
		}
	}
	return ""
}

// groupsOf are the control groups of a process by hierarchy.
func (m *machine) groupsOf(pid int) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(m.read(fmt.Sprintf("/proc/%d/cgroup", pid))) {
		if f := strings.SplitN(strings.TrimSpace(line), ":", 3); len(f) == 3 {
			all[f[1]] = f[2]
		}
	}
	return all
}

// program is the name of the program a process runs.
func (m *machine) program(pid int) string {
	if howto.Here() != howto.Windows {
		return m.read(fmt.Sprintf("/proc/%d/comm", pid))
	}
	p, err := process.NewProcess(int32(pid))
	if err != nil {
		return ""
	}
	name, err := p.Name()
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(name, ".exe")
}

// describe names a process for people: its number, program, unit and user.
func (m *machine) describe(ctx context.Context, pid int) string {
	text := fmt.Sprintf("process %d", pid)
	if name := m.program(pid); name != "" {
		text += " (" + name + ")"
	}
	if u := m.unitOf(pid); u != "" {
		text += ", unit " + u
	}
	if p, err := process.NewProcessWithContext(ctx, int32(pid)); err == nil {
		if uids, err := p.UidsWithContext(ctx); err == nil && len(uids) > 1 {
			text += ", user " + m.byID(int(uids[1])).name
		}
	}
	return text
}

// statusOf reads a number of kB from /proc/PID/status, in bytes; -1 when there is none.
func (m *machine) statusOf(pid int, key string) int64 {
	return kibibytes(m.read(fmt.Sprintf("/proc/%d/status", pid)), key)
}

// kibibytes finds "Key:   123 kB" in a text of the kernel.
func kibibytes(text, key string) int64 {
	for line := range strings.Lines(text) {
		rest, ok := strings.CutPrefix(line, key+":")
		if !ok {
			continue
		}
		var n int64
		if _, err := fmt.Sscanf(rest, "%d kB", &n); err == nil {
			return n << 10
		}
	}
	return -1
}
