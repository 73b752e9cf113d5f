// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/tune"
)

// TestDescriptorsOfTheRunningNode lowers the limit of a real process, and the fix
// raises it while it runs.
func TestDescriptorsOfTheRunningNode(t *testing.T) {
	needsRoot(t)
	p := newPatient(t, minimal)
	holder := start(t, "holdfast", "lock|"+p.data+"|few", nil)
	f := p.isIll("descriptors", Fail, `^limit 200 \(/proc/`+itoa(holder.pid)+`/limits\), \d+ in use, needed about 1130: 1 stream, 0 consumers, 1000 clients$`)
	p.heals("descriptors", f)
}

func TestDescriptorsThatAreAlmostUsedUp(t *testing.T) {
	needsRoot(t)
	p := newPatient(t, strings.Replace(minimal, "main: {", "main: {limits: {connections: 10}, ", 1))
	holder := start(t, "holdfast", "lock|"+p.data+"|few", nil)
	p.isWell("descriptors") // 200 are enough for ten clients
	mustRun(t, "prlimit", "--pid", itoa(holder.pid), "--nofile=141:141")
	// Recorded: the process has few files open, and a directory stands for /proc in which it has many.
	root := t.TempDir()
	for _, f := range []string{"limits", "status", "stat", "comm", "cgroup"} {
		p.write(filepath.Join(root, "proc", itoa(holder.pid), f), readText(t, "/proc/"+itoa(holder.pid)+"/"+f), 0o644)
	}
	p.write(filepath.Join(root, "proc/locks"), readText(t, "/proc/locks"), 0o644)
	for i := range 120 {
		p.write(filepath.Join(root, "proc", itoa(holder.pid), "fd", itoa(i)), "", 0o644)
	}
	p.root = root
	p.isIll("descriptors", Warn, `120 in use, .*: more than 80% are in use$`)
}

func TestDescriptorsOfAServiceThatIsStopped(t *testing.T) {
	p := newService(t)
	p.isWell("descriptors")
	p.write(filepath.Join(p.root, "etc/systemd/system/holdfast.service.d/50-limit.conf"), "[Service]\nLimitNOFILE=512\n", 0o644)
	p.heals("descriptors", p.isIll("descriptors", Fail, `^limit 512 \(/etc/systemd/system/holdfast.service.d/50-limit.conf\), needed`))
}

func TestMemoryOfTheControlGroup(t *testing.T) {
	group := cgroup(t, []string{"/sys/fs/cgroup/memory", "/sys/fs/cgroup"}, "hf-doctor/node")
	limit := filepath.Join(group, "memory.max")
	if _, err := os.Stat(filepath.Join(group, "memory.limit_in_bytes")); err == nil {
		limit = filepath.Join(group, "memory.limit_in_bytes")
	}
	if _, err := os.Stat(limit); err != nil {
		needs(t, false, "the memory controller")
	}
	p := newPatient(t, minimal)
	holder := start(t, "holdfast", "lock|"+p.data, nil)
	p.isWell("memory")
	p.write(filepath.Join(group, "cgroup.procs"), itoa(holder.pid), 0o644)
	set := func(bytes int) { p.write(limit, itoa(bytes), 0o644) }
	set(100 << 20)
	p.edit = func(m *machine) { m.in.Root = notContained(t, m.in.Root) }
	p.isIll("memory", Warn, `^100 MiB \(\S+\), the node uses .*, which is little$`)
	set(48 << 20)
	f := p.isIll("memory", Fail, `^48 MiB \(`+limit+`\), the node uses \S+ MiB, less than it needs$`)
	p.heals("memory", f)
}

// notContained is a root with the machine's own /proc and /sys in which nothing says
// that this is a container, where a limit is the host's to change.
func notContained(t *testing.T, root string) string {
	t.Helper()
	if root != "" {
		return root
	}
	root = t.TempDir()
	if err := os.Symlink("/sys", filepath.Join(root, "sys")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(root, "proc"), 0o755); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != "1" {
			if err := os.Symlink("/proc/"+e.Name(), filepath.Join(root, "proc", e.Name())); err != nil {
				t.Fatal(err)
			}
		}
	}
	return root
}

// recorded is a root directory with what the kernel says of a node with process id 7
// elsewhere: this machine has no swap, and its settings are not a test's to change.
func recorded(t *testing.T, files map[string]string) *patient {
	t.Helper()
	p := newPatient(t, minimal)
	p.root = t.TempDir()
	for name, text := range files {
		p.write(filepath.Join(p.root, name), text, 0o644)
	}
	for _, dir := range []string{"etc/sysctl.d", "etc/tmpfiles.d", "proc/7"} {
		if err := os.MkdirAll(filepath.Join(p.root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p.ask = func(context.Context) (Node, error) { return Node{PID: 7, Ready: true, MemoryLimit: 900 << 20}, nil }
	return p
}

const (
	meminfo    = "MemTotal:        1000000 kB\nMemFree:          100000 kB\nMemAvailable:     200000 kB\nSwapTotal:       1048576 kB\nSwapFree:         524288 kB\n"
	nodeStatus = "Name:\tholdfast\nVmRSS:\t  409600 kB\nVmSwap:\t  307200 kB\n"
)

// TestMemoryLimitsOfGroupsAbove is recorded for the second version of control groups, and for the
// limits of groups above that of the node.
func TestMemoryLimitsOfGroupsAbove(t *testing.T) {
	p := recorded(t, map[string]string{
		"proc/meminfo": meminfo, "proc/7/status": nodeStatus, "proc/7/cgroup": "0::/system.slice/holdfast.service\n",
		"sys/fs/cgroup/system.slice/holdfast.service/memory.max": "max\n",
		"sys/fs/cgroup/system.slice/memory.max":                  "1000000000\n",
		"sys/fs/cgroup/memory.max":                               "max\n",
	})
	p.isWell("memory")
	p.write(filepath.Join(p.root, "sys/fs/cgroup/system.slice/memory.max"), "440000000\n", 0o644)
	p.isIll("memory", Warn, `^420 MiB \(/sys/fs/cgroup/system.slice/memory.max\), the node uses 400 MiB: more than 90%$`)
	own := filepath.Join(p.root, "sys/fs/cgroup/system.slice/holdfast.service/memory.max")
	p.write(filepath.Join(p.root, "sys/fs/cgroup/system.slice/memory.max"), "max\n", 0o644)
	p.write(own, "50000000\n", 0o644)
	stub(t, "systemctl", `[ "$1 $2" = "set-property holdfast" ] && echo "${3#MemoryMax=}" >`+own)
	f := p.isIll("memory", Fail, `^48 MiB \(/sys/fs/cgroup/system.slice/holdfast.service/memory.max\)`)
	p.ask = func(context.Context) (Node, error) { return Node{PID: 7, Ready: true, MemoryLimit: 100 << 20}, nil }
	p.heals("memory", f)
}

func TestMemoryStreamsCount(t *testing.T) {
	p := newPatient(t, strings.Replace(minimal, "max_bytes: 8MiB", "max_bytes: 950MiB, storage: memory", 1))
	p.root = recorded(t, map[string]string{"proc/meminfo": meminfo}).root
	f := p.isIll("memory", Fail, `^977 MiB \(of the machine\), memory streams may hold 950 MiB, less than it needs$`)
	p.isComment(f)
	p.heals("memory", f, func() { p.write(filepath.Join(p.root, "proc/meminfo"), "MemTotal: 8000000 kB\n", 0o644) })
}

func TestRuntimeLimitAboveWhatThereIs(t *testing.T) {
	p := newService(t)
	env := filepath.Join(p.root, "etc/default/holdfast")
	p.write(env, "RESTART_ON_UPGRADE=auto\nGOMEMLIMIT=8TiB\n", 0o644)
	p.write(filepath.Join(p.root, "etc/sysconfig/holdfast"), "", 0o644)
	p.ask = func(context.Context) (Node, error) {
		if strings.Contains(readText(t, env), "GOMEMLIMIT") {
			return Node{PID: os.Getpid(), MemoryLimit: 8 << 40}, nil
		}
		return Node{PID: os.Getpid(), MemoryLimit: 100 << 20}, nil
	}
	p.heals("memory", p.isIll("memory", Warn, `keeps to 8.0 TiB \(GOMEMLIMIT\), and it may have only`))
}

// TestNodeInSwap is recorded.
func TestNodeInSwap(t *testing.T) {
	p := recorded(t, map[string]string{
		"proc/meminfo": meminfo, "proc/7/status": nodeStatus, "proc/sys/vm/swappiness": "60\n",
		"proc/swaps": "Filename Type Size Used Priority\n/dev/sda3 partition 1048576 524288 -2\n", "proc/self/mountinfo": "26 1 8:2 / / rw - ext4 /dev/sda2 rw\n",
	})
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	stub(t, "holdfast", `case "$*" in
"tune --config `+p.file+` swappiness --apply --at-boot --yes") `+actEnv+`='tune|`+p.root+`|`+p.data+`|swappiness' exec `+self+` ;;
*) exit 2 ;;
esac`)
	p.heals("swap", p.isIll("swap", Warn, `^512 MiB of 1.0 GiB used, swappiness 60; 300 MiB of process 7$`))
	if _, names, err := tune.Recorded(tune.Input{Dir: p.data, Root: p.root}); err != nil || len(names) != 1 || names[0] != "swappiness" {
		t.Errorf("got %v, %v, want the setting made again at each boot", names, err)
	}
	// Swap that the node is not in is a fresh machine of any distribution.
	p.write(filepath.Join(p.root, "proc/sys/vm/swappiness"), "60\n", 0o644)
	p.write(filepath.Join(p.root, "proc/7/status"), "VmRSS:\t 409600 kB\nVmSwap:\t 1024 kB\n", 0o644)
	p.isWell("swap")
}

// TestHugePagesThatOutgrowTheLimit is recorded.
func TestHugePagesThatOutgrowTheLimit(t *testing.T) {
	const dir = "sys/kernel/mm/transparent_hugepage/"
	p := recorded(t, map[string]string{
		dir + "enabled": "[always] madvise never\n", dir + "khugepaged/max_ptes_none": "511\n",
		"proc/7/status": "VmRSS:\t 1024000 kB\n", "proc/7/smaps_rollup": "Rss: 1024000 kB\nAnonHugePages:   614400 kB\n",
	})
	p.heals("huge-pages", p.isIll("huge-pages", Warn, `process 7 uses 1000 MiB, more than its own limit of 900 MiB, 600 MiB of it in huge pages$`))
	if got := readText(t, filepath.Join(p.root, "etc/tmpfiles.d/holdfast-huge-pages.conf")); got != "w /sys/kernel/mm/transparent_hugepage/khugepaged/max_ptes_none - - - - 0\n" {
		t.Errorf("got %q, want the setting kept for the next boot", got)
	}
	// "always" alone is how Debian comes.
	p.write(filepath.Join(p.root, dir+"khugepaged/max_ptes_none"), "511\n", 0o644)
	p.write(filepath.Join(p.root, "proc/7/status"), "VmRSS:\t 102400 kB\n", 0o644)
	p.isWell("huge-pages")
}

// TestClockThatIsNotSet has a file in place of the machine's clock, which everybody
// uses.
func TestClockThatIsNotSet(t *testing.T) {
	p := newPatient(t, minimal)
	p.root = t.TempDir()
	clock := filepath.Join(t.TempDir(), "clock")
	synced := filepath.Join(t.TempDir(), "synced")
	p.write(filepath.Join(p.root, "proc/uptime"), "86400.00 1.00\n", 0o644)
	p.write(filepath.Join(p.root, "proc/stat"), "btime 1\n", 0o644)
	p.write(clock, "1970-01-01T00:00:30Z", 0o600)
	p.edit = func(m *machine) {
		m.now = func() time.Time {
			now, err := time.Parse(time.RFC3339, strings.TrimSpace(readText(t, clock)))
			if err != nil {
				t.Fatal(err)
			}
			return now
		}
		m.synced = func() (bool, error) { _, err := os.Stat(synced); return err == nil, nil }
	}
	stub(t, "timedatectl", `[ "$*" = "set-ntp true" ] && date -u +%Y-%m-%dT%H:%M:%SZ >`+clock+` && touch `+synced)
	p.heals("clock", p.isIll("clock", Fail, `^the clock shows 1970-01-01 00:00:30, before this program was made$`))
	if err := os.Remove(synced); err != nil {
		t.Fatal(err)
	}
	p.heals("clock", p.isIll("clock", Warn, `STA_UNSYNC`))
	// The hour after a power cut, a container and a kernel that does not tell are no trouble.
	if err := os.Remove(synced); err != nil {
		t.Fatal(err)
	}
	p.write(filepath.Join(p.root, "run/.containerenv"), "", 0o644)
	p.isWell("clock")
	if err := os.Remove(filepath.Join(p.root, "run/.containerenv")); err != nil {
		t.Fatal(err)
	}
	edit := p.edit
	p.edit = func(m *machine) {
		edit(m)
		m.synced = func() (bool, error) { return false, errors.ErrUnsupported }
	}
	p.isWell("clock")
}

func TestClockThatWentBack(t *testing.T) {
	p := newPatient(t, minimal)
	p.opened()
	p.edit = func(m *machine) { m.synced = func() (bool, error) { return true, nil } }
	p.isWell("clock")
	stamp := filepath.Join(p.data, "VERSION")
	if err := os.Chtimes(stamp, time.Time{}, time.Now().AddDate(5, 0, 0)); err != nil {
		t.Fatal(err)
	}
	stub(t, "timedatectl", `[ "$*" = "set-ntp true" ] && touch `+stamp) // as if the clock were right again
	p.heals("clock", p.isIll("clock", Warn, `^\S+/VERSION was written at \S+ \S+, and the clock shows`))
}
