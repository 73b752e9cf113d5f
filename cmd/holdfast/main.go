// SPDX-License-Identifier: Apache-2.0

// Command holdfast is a durable message queue: it runs a node and asks a
// running one.
//
// This package owns the verbs, their flags, how answers look, and exit codes.
// Each verb is a file. What the verbs do is in package appliance and below.
package main

import "os"

func main() {
	os.Exit(run(os.Args[1:], stdio{in: os.Stdin, out: os.Stdout, err: os.Stderr, exit: os.Exit}))
}
