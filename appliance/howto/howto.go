// SPDX-License-Identifier: Apache-2.0

// Package howto is what a person types on a system: how the service is started, stopped
// and looked at, how rights are got, and how a file is closed. Every hint of the product
// takes its commands from here, so that none tells of systemctl on Windows.
//
// It owns words only: it runs nothing and looks at nothing. Whoever writes a hint asks it.
package howto

import (
	"fmt"
	"regexp"
	"runtime"
	"strings"

	"github.com/holdfast-mq/holdfast/appliance/acl"
)

// System is a system by the name that Go has for it.
type System string

// Windows is the system that differs from all others.
const Windows System = "windows"

// Here is the system that this program runs on.
func Here() System { return System(runtime.GOOS) }

func (s System) pick(unix, windows string) string {
	if s == Windows {
		return windows
	}
	return unix
}

// Start is the command that starts the service.
func (s System) Start() string { return s.pick("systemctl start holdfast", "holdfast service start") }

// Stop is the command that stops the service.
func (s System) Stop() string { return s.pick("systemctl stop holdfast", "holdfast service stop") }

// Restart is the command that stops and starts the service.
func (s System) Restart() string {
	return s.pick("systemctl restart holdfast", "holdfast service restart")
}

// Log is the command that shows what the service has said last.
func (s System) Log() string {
	return s.pick("journalctl -u holdfast -e", `powershell Get-Content -Tail 50 "$env:ProgramData\Holdfast\logs\holdfast.log"`)
}

// SystemLog is who says what is wrong with a disk, as the subject of a sentence.
func (s System) SystemLog() string {
	return s.pick("the kernel's log", "the Event Log of Windows (System)")
}

// AsRoot is a command with the rights to do anything. A prompt of Windows has them or
// has not: no word before a command gives them.
func (s System) AsRoot(command string) string {
	switch {
	case s == Windows:
		return command
	case strings.ContainsAny(command, "&|;><"):
		return "sudo sh -c " + s.Quote(command)
	}
	return "sudo " + command
}

// Elevate says in a sentence how a person gets the rights for the service.
func (s System) Elevate() string {
	return s.pick("run it with sudo, or join the group of the service: `"+s.Join("$USER")+"`, then log in again",
		`open PowerShell or cmd with "Run as administrator", then run it again`)
}

// Join is the command that makes a user one of those who may ask the node.
func (s System) Join(user string) string {
	return s.pick("sudo usermod -aG holdfast "+user, "net localgroup holdfast "+user+" /add")
}

// End is the command that ends a process.
func (s System) End(pid int) string {
	// Without /F it is for programs with a window.
	return fmt.Sprintf(s.pick("kill %d", "taskkill /F /PID %d"), pid)
}

// Remove is the command that removes a file.
func (s System) Remove(path string) string { return s.pick("rm ", "del ") + s.Quote(path) }

// MakeDir is the command that makes a directory and those above it.
func (s System) MakeDir(path string) string { return s.pick("mkdir -p ", "mkdir ") + s.Quote(path) }

// ClosedFile is how a file that holds a secret must be, as the end of "a file of its own".
func (s System) ClosedFile() string {
	return s.pick("with mode 0600", "that only administrators and the node's account can read")
}

// Close is the command that closes a file with a secret to others; on Windows several, in
// a sentence.
func (s System) Close(path string) string {
	if s == Windows {
		return acl.Closing(path, false, acl.Read, acl.Keepers()...)
	}
	return "chmod 0600 " + path
}

// Give is how the account of the node gets a file that it may not read.
func (s System) Give(path string) string {
	if s == Windows {
		return acl.Closing(path, false, acl.Full, acl.Keepers()...)
	}
	return "chown holdfast " + path
}

// plainWord is one that no shell takes for something else.
var plainWord = regexp.MustCompile(`^[\w/.@:+,%=-]+$`)

// Quote makes a word safe to paste into a shell, and into both of those of Windows.
func (s System) Quote(word string) string {
	if s == Windows {
		if word != "" && !strings.ContainsAny(word, " &|<>()^;,'\"%$`{}@") {
			return word
		}
		return `"` + strings.ReplaceAll(word, `"`, `\"`) + `"`
	}
	if plainWord.MatchString(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}
