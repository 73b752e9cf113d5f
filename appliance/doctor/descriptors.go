// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"fmt"
	"math"
	"os"
	"strconv"
	"strings"

	"github.com/shirou/gopsutil/v4/process"

	"github.com/holdfast-mq/holdfast/appliance/howto"
)

// What descriptors are needed for: a stream has its newest block and its index open,
// a consumer its state; the rest is listeners, the log and the runtime.
const (
	baseFiles     = 128
	perStream     = 2
	perConsumer   = 1
	usualClients  = 1000 // where no account says how many
	unlimitedText = "infinity"
)

// fileLimit is the limit of descriptors that counts, and where it is from.
type fileLimit struct {
	soft, hard uint64
	where      string
}

// lookAtDescriptors compares the limit with what streams and clients need.
func lookAtDescriptors(ctx context.Context, m *machine) report {
	if howto.Here() == howto.Windows {
		return skip("Windows sets no limit")
	}
	var r report
	need, why := m.filesNeeded(ctx)
	pid := m.running(ctx)
	limit, err := m.fileLimit(ctx, pid)
	if err != nil {
		r.blind(m, "can't read the limit of descriptors: "+err.Error())
		return r
	}
	used, usedText := m.filesUsed(pid), ""
	if used > 0 {
		usedText = fmt.Sprintf(", %d in use", used)
	}
	evidence := fmt.Sprintf("limit %s (%s)%s, needed about %d: %s", limitText(limit.soft), limit.where, usedText, need, why)
	const matters = "beyond the limit streams can't be opened and clients are refused"
	switch {
	case limit.soft < uint64(need):
		r.fail(evidence, matters, m.raiseFiles(pid, need, limit))
	case used > 0 && uint64(used) > limit.soft/10*8:
		r.warn(evidence+": more than 80% are in use", matters, m.raiseFiles(pid, need, limit))
	}
	r.measured("%s", evidence)
	return r
}

func limitText(n uint64) string {
	if n == math.MaxUint64 {
		return unlimitedText
	}
	return strconv.FormatUint(n, 10)
}

func (m *machine) filesNeeded(ctx context.Context) (need int, why string) {
	streams, consumers, clients := 0, 0, 0
	for _, a := range m.in.Config.Accounts {
		streams += len(a.Streams)
		for _, s := range a.Streams {
			consumers += len(s.Consumers)
		}
		if n := a.Limits.Connections; n != nil && *n > 0 {
			clients += int(*n)
		} else {
			clients += usualClients
		}
	}
	if node, err := m.ask(ctx); err == nil {
		streams, consumers, clients = max(streams, node.Streams), max(consumers, node.Consumers), max(clients, node.Connections)
	}
	need = baseFiles + perStream*streams + perConsumer*consumers + clients
	return need, fmt.Sprintf("%s, %s, %s", count(streams, "stream"), count(consumers, "consumer"), count(clients, "client"))
}

// fileLimit is that of the running process, else what the unit or this user's
// session gives to the next.
func (m *machine) fileLimit(ctx context.Context, pid int) (fileLimit, error) {
	if pid != 0 {
		p, err := process.NewProcessWithContext(ctx, int32(pid))
		if err != nil {
			return fileLimit{}, err
		}
		limits, err := p.RlimitWithContext(ctx)
		if err != nil {
			return fileLimit{}, err
		}
		for _, l := range limits {
			if l.Resource == process.RLIMIT_NOFILE {
				return fileLimit{l.Soft, l.Hard, fmt.Sprintf("/proc/%d/limits", pid)}, nil
			}
		}
		return fileLimit{}, fmt.Errorf("no line about open files in /proc/%d/limits", pid)
	}
	if m.service() {
		s := m.unit().values.last("Service/LimitNOFILE")
		soft, hard, both := strings.Cut(s.value, ":")
		if !both {
			hard = soft
		}
		if hard == unlimitedText {
			return fileLimit{math.MaxUint64, math.MaxUint64, s.file}, nil
		}
		if n, err := strconv.ParseUint(hard, 10, 64); err == nil {
			return fileLimit{n, n, s.file}, nil // a Go program raises the soft one itself
		}
	}
	n, err := ownFileLimit()
	return fileLimit{n, n, "of this session"}, err
}

// filesUsed is 0 when it can't be seen.
func (m *machine) filesUsed(pid int) int {
	if pid == 0 {
		return 0
	}
	fds, err := os.ReadDir(m.at(fmt.Sprintf("/proc/%d/fd", pid)))
	if err != nil {
		return 0
	}
	return len(fds)
}

// raiseFiles raises the limit of the running process at once, and of the next one.
func (m *machine) raiseFiles(pid, need int, limit fileLimit) string {
	want, unit := max(enoughFiles, 2*need), max(800000, 2*need)
	// No process may have more, root's neither.
	if most, err := strconv.Atoi(m.read("/proc/sys/fs/nr_open")); err == nil {
		want, unit = min(want, most), min(unit, most)
	}
	var parts []string
	if m.service() {
		dir := "/etc/systemd/system/" + unitName + ".d"
		parts = append(parts, m.asRoot(fmt.Sprintf(`mkdir -p %s && printf '[Service]\nLimitNOFILE=%d\n' > %s && systemctl daemon-reload`,
			quote(m.at(dir)), unit, quote(m.at(dir+"/90-descriptors.conf")))))
	} else {
		parts = append(parts, comment("for the next start, in the shell that starts it: ulimit -n %d", want))
	}
	if pid != 0 {
		if limit.hard != math.MaxUint64 && limit.hard >= uint64(2*need) {
			want = int(limit.hard) // as far as that goes nobody's leave is needed
		}
		parts = append(parts, m.asRoot(fmt.Sprintf("prlimit --pid %d --nofile=%d:%d", pid, want, want)))
	}
	return lines(parts...)
}

// count writes a number and its noun.
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
