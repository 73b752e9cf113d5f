// SPDX-License-Identifier: Apache-2.0

// Package systemtest installs the packages in containers where a real systemd
// is process 1, and does there what happens to machines: crashes, reboots,
// upgrades under load, removal, and what goes wrong meanwhile. It holds tests
// only (`make test-system`), which need root on Debian.
package systemtest
