// SPDX-License-Identifier: Apache-2.0

// Package service is the line between Holdfast and what starts it: signals, the
// notifications and signs of life that systemd waits for, and the service itself,
// which it installs, removes, starts and stops for `holdfast service`.
//
// The node is not its business; the run command and the appliance do that. What an
// install or uninstall does is a plan, made of what is known of the machine and of
// nothing else, and carried out step by step.
package service
