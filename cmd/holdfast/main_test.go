// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"os/exec"
	"strconv"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// What the program of the tests does that the real one does not, by its environment.
const (
	// killAfterStep is the step of an apply after which the process dies.
	killAfterStep = "TEST_KILL_AFTER_STEP"
	// driftEveryEnv is the time between two looks for drift.
	driftEveryEnv = "TEST_DRIFT_EVERY"
)

// TestMain makes this program the command holdfast of the scripts.
func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"holdfast": hooked})
}

func hooked() {
	std := stdio{in: os.Stdin, out: os.Stdout, err: os.Stderr}
	if last, err := strconv.Atoi(os.Getenv(killAfterStep)); err == nil {
		std.step = func(string) {
			if last--; last == 0 {
				self, err := os.FindProcess(os.Getpid())
				if err == nil {
					_ = self.Kill() // as kill -9 does: nothing is written any more
				}
				select {}
			}
		}
	}
	if every, err := time.ParseDuration(os.Getenv(driftEveryEnv)); err == nil {
		std.driftEvery = every
	}
	os.Exit(run(os.Args[1:], std))
}

// testProgram is this program as the command holdfast.
func testProgram(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("holdfast")
	if err != nil {
		t.Fatal(err)
	}
	return path
}
