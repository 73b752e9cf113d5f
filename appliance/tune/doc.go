// SPDX-License-Identifier: Apache-2.0

// Package tune sets what the kernel does with the disk of a data directory, where that
// was measured to help or protects against something, and puts it back.
//
// It owns the list of settings with the reason for each, what was measured here, and the
// record of what stood there before. What only a person can change, in /etc/fstab, it
// says and leaves alone. Nothing it changes can make a message less
// durable. The facts of mounts and devices are those of appliance/disk; whether it runs
// at boot is a matter of appliance/service; the command wires them.
package tune
