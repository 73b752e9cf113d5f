// SPDX-License-Identifier: Apache-2.0

// Package metrics owns the names, help texts and collectors of what /metrics
// shows. It reads a small interface and never the engine itself.
package metrics
