// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/shirou/gopsutil/v4/host"
	"github.com/shirou/gopsutil/v4/process"

	"github.com/holdfast-mq/holdfast/appliance/datadir"
	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/appliance/howto"
)

// lookAtNode asks the node how it is.
func lookAtNode(ctx context.Context, m *machine) report {
	var r report
	node, err := m.ask(ctx)
	switch {
	case diag.CodeOf(err) == diag.CodeAdminRefused:
		r.blind(m, "the admin socket "+m.in.Socket+" refuses")
		r.findings[0].Fix = lines(r.findings[0].Fix, comment("or, for ever: %s, then log in again", howto.Here().Join(m.me().name)))
	case diag.CodeOf(err) == diag.CodeNoNode:
		m.notRunning(ctx, &r)
	case diag.CodeOf(err) == diag.CodeAdminFalse:
		r.fail(err.Error(), "somebody may pretend to be the node", comment("%s", diag.Hint(err)))
	case err != nil:
		r.fail(err.Error(), "a node that does not answer can't be looked after", m.restart())
	case !node.Ready:
		r.fail(fmt.Sprintf("the node answers and is not ready (%s): %s", node.Phase, strings.Join(node.Missing, "; ")),
			"clients may not find their streams yet", comment("wait, and see how far it is: %s status%s", m.in.Program, m.flags()))
	default:
		text := ""
		if node.Problems > 0 {
			text = fmt.Sprintf("; %s, see %s status", count(node.Problems, "warning"), m.in.Program)
		}
		if len(node.NeedRestart) > 0 {
			r.warn("the node was started with another "+strings.Join(node.NeedRestart, ", ")+" than the file has", "what the file says is not in force", m.restart())
		}
		r.measured("ready, process %d, up %v, %d clients%s", node.PID, node.Uptime.Round(time.Second), node.Connections, text)
	}
	for _, o := range node.Others {
		r.warn("another node of the cluster: "+o.What, "streams that it leads or keeps are not as open, or as safe, as they should be", comment("%s", o.Fix))
	}
	return r
}

// notRunning tells a service that is down from a node that was not started.
func (m *machine) notRunning(ctx context.Context, r *report) {
	const matters = "no client can connect"
	pid := m.lockHolder()
	if pid == 0 && m.service() {
		pid = m.mainPID(ctx)
	}
	switch {
	case pid != 0:
		r.fail(fmt.Sprintf("%s runs, and nothing answers at %s", m.describe(ctx, pid), m.in.Socket),
			"it can be neither asked nor changed; its socket was removed, or it is just starting", m.restart())
	case m.isService():
		r.fail("the service does not run: nothing answers at "+m.in.Socket, matters, lines(
			m.asRoot(howto.Here().Start()), comment("if it does not stay up: %s", howto.Here().Log())))
	case m.hidden():
		r.blind(m, "can't read "+m.in.File+", so that it is not known where the node is")
	default:
		r.warn("no node runs here: nothing answers at "+m.in.Socket, matters, comment("start it: %s run%s", m.in.Program, m.flags()))
	}
}

// flags are those that name this node to another verb.
func (m *machine) flags() string {
	if m.in.File == "" {
		return ""
	}
	return " --config " + quote(m.in.File)
}

// lookAtVersion finds a node that runs another program than the installed one.
func lookAtVersion(ctx context.Context, m *machine) report {
	var r report
	text := "holdfast " + m.in.Version
	if info, err := host.InfoWithContext(ctx); err == nil {
		text += fmt.Sprintf(", %s %s %s, kernel %s", info.Platform, info.PlatformVersion, info.KernelArch, info.KernelVersion)
	}
	if kind := m.container(); kind != "" {
		text += ", in a container (" + kind + ")"
	}
	r.measured("%s", text)
	node, err := m.ask(ctx)
	if err != nil {
		return r
	}
	const matters = "corrections of the installed version are not in effect"
	exe, err := os.Readlink(m.at(fmt.Sprintf("/proc/%d/exe", node.PID)))
	switch {
	case err == nil && strings.HasSuffix(exe, " (deleted)"):
		r.warn(fmt.Sprintf("the node runs %s, which was replaced or removed since it started", exe), matters, m.restart())
	case node.Version != m.in.Version:
		own, _ := os.Executable() // only named
		r.warn(fmt.Sprintf("the node runs version %s, and %s is version %s", node.Version, own, m.in.Version), matters, m.restart())
	}
	return r
}

// lookAtLock finds others that use the data directory.
func lookAtLock(ctx context.Context, m *machine) report {
	var r report
	dir := m.dataDir()
	if _, err := os.Stat(dir); gone(err) || dir == "" {
		return skip("%s does not exist yet%s", dir, m.assumed())
	} else if denied(err) {
		r.blind(m, "can't look into "+dir)
		return r
	}
	if _, err := os.Stat(datadir.LockPath(dir)); failed(err) {
		r.failed(dir, err)
		return r
	}
	holder := m.lockHolder()
	if holder == 0 {
		r.measured("nobody uses %s", dir)
	} else {
		r.measured("%s uses %s", m.describe(ctx, holder), dir)
	}
	if holder != 0 && m.service() && m.unitOf(holder) != unitName {
		r.fail(fmt.Sprintf("%s has locked %s, and it is not the service", m.describe(ctx, holder), dir), "the service can't start while it runs",
			m.asRoot(fmt.Sprintf("kill %d && timeout 60 tail --pid=%d -f /dev/null; systemctl restart holdfast", holder, holder)))
	}
	others, blind := m.writers(ctx, dir, holder)
	for _, pid := range others {
		r.fail(fmt.Sprintf("%s has files in %s open for writing, beside the node", m.describe(ctx, pid), dir),
			"two servers on one store ruin it", m.asRoot(fmt.Sprintf("kill %d", pid)))
	}
	if blind && len(r.findings) == 0 {
		r.blind(m, "can't see the open files of other users' processes")
	}
	return r
}

// writers are the processes but holder that have files below dir open for writing.
func (m *machine) writers(ctx context.Context, dir string, holder int) (pids []int, blind bool) {
	all, err := process.PidsWithContext(ctx)
	if err != nil {
		return nil, true
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	for _, pid := range all {
		if int(pid) == holder || int(pid) == os.Getpid() {
			continue
		}
		fds, err := os.ReadDir(m.at(fmt.Sprintf("/proc/%d/fd", pid)))
		if err != nil {
			blind = blind || denied(err)
			continue
		}
		for _, fd := range fds {
			target, err := os.Readlink(m.at(fmt.Sprintf("/proc/%d/fd/%s", pid, fd.Name())))
			if err == nil && strings.HasPrefix(target, dir+"/") && m.writes(int(pid), fd.Name()) {
				pids = append(pids, int(pid))
				break
			}
		}
	}
	return pids, blind
}

// writes reports whether a descriptor was opened for writing: a backup that reads
// does no harm.
func (m *machine) writes(pid int, fd string) bool {
	for line := range strings.Lines(m.read(fmt.Sprintf("/proc/%d/fdinfo/%s", pid, fd))) {
		var flags int
		if _, err := fmt.Sscanf(line, "flags: %o", &flags); err == nil {
			const accessMode = 0o3
			return flags&accessMode != 0
		}
	}
	return false
}
