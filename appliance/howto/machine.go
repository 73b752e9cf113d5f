// SPDX-License-Identifier: Apache-2.0

package howto

import (
	"fmt"
	"strings"
)

// What is done to the machine itself.

// KeepClock are the commands, in lines, that have the clock kept right.
func (s System) KeepClock() string {
	return s.pick("timedatectl set-ntp true", "net start w32time\nw32tm /resync")
}

// SetClock is the command that sets the clock by hand.
func (s System) SetClock() string {
	return s.pick("date -s 'YYYY-MM-DD HH:MM:SS'", "powershell Set-Date 'YYYY-MM-DD HH:MM:SS'")
}

// Listener is the command that shows who listens on a port.
func (s System) Listener(port string) string {
	return s.pick("ss -ltnp sport = :"+port, "netstat -ano | findstr :"+port)
}

// FreePort is a port that may be listened on, and how others may be.
func (s System) FreePort() string {
	return s.pick("a port above 1023, or give the service the capability CAP_NET_BIND_SERVICE",
		"a port that Windows does not keep for itself: `netsh int ipv4 show excludedportrange protocol=tcp` shows those")
}

// HostsFile is where a machine has names of its own.
func (s System) HostsFile() string {
	return s.pick("/etc/hosts", `C:\Windows\System32\drivers\etc\hosts`)
}

// MakeRoom is what can be deleted without a loss.
func (s System) MakeRoom() string {
	return s.pick("apt-get clean, journalctl --vacuum-size=200M", "cleanmgr")
}

// Largest is the command that shows what takes most of the volume of a directory.
func (s System) Largest(dir string) string {
	volume, _, _ := strings.Cut(dir, `\`)
	return s.pick(
		fmt.Sprintf("du -xh --max-depth=2 $(df --output=target %s | tail -n 1) 2>/dev/null | sort -h | tail -n 15", s.Quote(dir)),
		`powershell "Get-ChildItem `+volume+`\ -Recurse -File -ErrorAction SilentlyContinue | Sort-Object Length -Descending | Select-Object -First 15 Length,FullName"`)
}

// RepairDisk is what is done about a disk that fails, in lines.
func (s System) RepairDisk() string {
	return s.pick("the kernel's log says what is wrong: dmesg | tail\nstop the node, repair the file system (fsck, xfs_repair), mount it, start the node",
		"the Event Log of Windows (System) says what is wrong\nstop the node, repair the volume (chkdsk /f), start the node")
}

// MemoryUsers is the command that shows who uses most memory.
func (s System) MemoryUsers() string {
	return s.pick("ps -e -o rss,comm --sort -rss | head", `powershell "Get-Process | Sort-Object WS -Descending | Select-Object -First 10"`)
}
