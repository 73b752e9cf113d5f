// SPDX-License-Identifier: Apache-2.0

//go:build system && linux

package systemtest

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"github.com/holdfast-mq/holdfast/packaging/nest"
)

// Two versions of the same sources.
const older, newer = "0.1.0", "0.2.0"

// distVar names a directory with packages of both versions, for those who run
// these tests over and over.
const distVar = "HOLDFAST_TEST_DIST"

// dist builds both versions for this machine, once.
var dist = sync.OnceValues(func() (string, error) {
	if dir := os.Getenv(distVar); dir != "" {
		return filepath.Abs(dir)
	}
	dir := filepath.Join(os.Getenv(workDirVar), "dist")
	for _, version := range []string{older, newer} {
		cmd := exec.Command("go", "run", "./packaging", "-out", filepath.Join(dir, version), "-version", version,
			"-arch", runtime.GOARCH, "-format", "deb,rpm,tar")
		cmd.Dir = filepath.Join("..", "..")
		if err := nest.Tell(cmd); err != nil {
			return "", err
		}
	}
	return dir, nil
})

// built returns the file of a version with this extension.
func built(t *testing.T, version, extension string) string {
	t.Helper()
	dir, err := dist()
	if err != nil {
		t.Fatal(err)
	}
	file, err := nest.Built(filepath.Join(dir, version), extension)
	if err != nil {
		t.Fatal(err)
	}
	return file
}
