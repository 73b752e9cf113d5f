// SPDX-License-Identifier: Apache-2.0

// Package winetest installs what is built for Windows under Wine, in a root file
// system of its own: MSI and zip, the service, upgrade, removal, a crash, a start that
// takes long, and a full disk. Clients are stock ones, from Linux. It holds tests only
// (`make test-windows`), which need root on Debian. What Wine can't show is in
// docs/windows.md.
package winetest
