// SPDX-License-Identifier: Apache-2.0

// Package disk knows how full the store's volume may become: it decides when
// publishing has to stop and when it may go on (Guard), says when the volume will
// be full (Guard again), and keeps room that is given up in an emergency (Ballast).
//
// It stops nobody and reads no disk by itself; the appliance feeds it and acts.
package disk
