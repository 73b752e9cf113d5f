// SPDX-License-Identifier: Apache-2.0

package disk

// The values of a device's write cache, as Linux says them.
const (
	cacheBack    = "write back"
	cacheThrough = "write through"
)

// Device is the block device below a directory, as far as the system tells. An empty
// Name is an unknown one.
type Device struct {
	Name       string `json:"name,omitempty"` // such as nvme0n1
	Model      string `json:"model,omitempty"`
	WriteCache string `json:"write_cache,omitempty"` // "write back" is one that a power cut empties
	Scheduler  string `json:"scheduler,omitempty"`
	Rotating   bool   `json:"rotating,omitempty"`
	// Virtual devices are another system's promise: of a hypervisor, or a file.
	Virtual bool `json:"virtual,omitempty"`

	sys string // its directory below /sys
}
