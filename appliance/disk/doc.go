// SPDX-License-Identifier: Apache-2.0

// Package disk knows how full the store's volume may become: it decides when
// publishing has to stop and when it may go on (Guard), says when the volume will
// be full (Guard again), and keeps room that is given up in an emergency (Ballast).
//
// It also owns what the system says of a directory's disk: mount, devices and the
// settings of their queues (System), what the disk can do (Measure), and whether it is
// to be believed (Trust). Doctor, tune and the appliance ask here.
//
// It stops nobody and changes no setting; the appliance feeds it and acts.
package disk
