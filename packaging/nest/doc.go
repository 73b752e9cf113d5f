// SPDX-License-Identifier: Apache-2.0

// Package nest is where tests of packages put a whole system: a process of their own in
// namespaces, of which no mount, process or port is left however it ends, and root file
// systems that are kept from one run to the next. Packages systemtest and winetest use it.
package nest
