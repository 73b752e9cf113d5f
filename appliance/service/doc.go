// SPDX-License-Identifier: Apache-2.0

// Package service is the line between Holdfast and what starts it: signals,
// and the notifications that systemd waits for.
//
// It starts and stops nothing itself; the run command and the appliance do.
package service
