// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The values of a device's write cache, as Linux says them.
const (
	CacheBack    = "write back"
	CacheThrough = "write through"
)

// System is where the kernel tells of mounts and devices: below Root, which is empty
// for this machine. Tests have recorded files there.
type System struct{ Root string }

// Mount is where a directory is mounted.
type Mount struct {
	Point  string
	FSType string
	Source string
	// Options are those of the mount and of its file system, each once.
	Options []string

	major, minor int
}

// Has reports whether one of the options is set.
func (m Mount) Has(options ...string) bool {
	return slices.ContainsFunc(options, func(o string) bool { return slices.Contains(m.Options, o) })
}

// Stack is what is below a mount.
type Stack struct {
	// Top is what the file system is on: the whole disk of a partition, or a device
	// of device mapper. Its read-ahead is that of the file system.
	Top Device
	// Disks are the whole disks, through partitions, device mapper and btrfs; none
	// where no block device can be seen.
	Disks []Device
}

// Device is a whole block device, as far as the system tells. An empty Name is an
// unknown one.
type Device struct {
	Name       string `json:"name,omitempty"` // such as nvme0n1
	Model      string `json:"model,omitempty"`
	WriteCache string `json:"write_cache,omitempty"` // "write back" is one that a power cut empties
	Scheduler  string `json:"scheduler,omitempty"`
	Rotating   bool   `json:"rotating,omitempty"`
	// Virtual devices are another system's promise: of a hypervisor, or a file.
	Virtual bool `json:"virtual,omitempty"`

	Dir      string `json:"-"` // below /sys
	OwnCache string `json:"-"` // what a SCSI or SATA disk says of its write cache itself
	Driver   string `json:"-"`
}

// Setting is the file with a setting of the device's queue.
func (d Device) Setting(name string) string { return filepath.Join(d.Dir, "queue", name) }

// Schedulers are those that the device could have.
func (d Device) Schedulers() []string {
	return strings.Fields(strings.NewReplacer("[", "", "]", "").Replace(read(d.Dir, "queue/scheduler")))
}

func read(dir, name string) string {
	text, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// Chosen is the word in brackets of a list as the kernel writes it: "none [bfq]". A
// text without brackets is the word itself.
func Chosen(list string) string {
	if _, after, ok := strings.Cut(list, "["); ok {
		name, _, _ := strings.Cut(after, "]")
		return name
	}
	return strings.TrimSpace(list)
}
