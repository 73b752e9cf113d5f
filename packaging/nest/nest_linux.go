// SPDX-License-Identifier: Apache-2.0

package nest

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// Skipped is the exit code of tests that this machine can't run, for the reason that is
// printed.
func Skipped(why string) int {
	fmt.Fprintf(os.Stdout, "skipping: needs %s\n", why)
	if os.Getenv("HOLDFAST_TEST_SKIP_NOTHING") != "" {
		return 1
	}
	return 0
}

// Lost are the programs of a list that are not there, in words.
func Lost(tools ...string) string {
	var lost []string
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			lost = append(lost, tool)
		}
	}
	return strings.Join(lost, ", ")
}

// Again runs this test program again with the same arguments, as the first process of
// namespaces of its own, with dir in the environment. more are namespaces besides those of
// mounts and processes.
func Again(variable, dir string, more uintptr) (exitCode int) {
	// The death of the thread that starts it would be taken for that of the process.
	runtime.LockOSThread()
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), variable+"="+dir)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:   syscall.CLONE_NEWPID | more,
		Unshareflags: syscall.CLONE_NEWNS,
		Pdeathsig:    syscall.SIGKILL,
	}
	// The terminal interrupts both; this one stays to tidy up.
	signal.Ignore(os.Interrupt)
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		return exit.ExitCode()
	}
	fmt.Fprintf(os.Stdout, "run the tests in namespaces: %v\n", err)
	return 1
}

// CacheDir keeps root file systems from one run to the next.
func CacheDir() (string, error) {
	user, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(user, "holdfast")
	return dir, os.MkdirAll(dir, 0o755)
}

// WorkDir is a new directory below the cache, and not in /tmp, which may be memory.
func WorkDir(prefix string) (string, error) {
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	return os.MkdirTemp(cache, prefix)
}

// Key is another one for another recipe.
func Key(recipe []string) string {
	key := sha256.Sum256([]byte(strings.Join(recipe, "\n")))
	return fmt.Sprintf("%x", key[:8])
}

// Image returns the tar file that a recipe of mmdebstrap makes, in work. It appears in the
// cache whole or not at all, and another recipe is another file.
func Image(recipe []string, work string) (string, error) {
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	image := filepath.Join(cache, "rootfs-"+Key(recipe)+".tar")
	if _, err := os.Stat(image); err == nil {
		return image, nil
	}
	part := filepath.Join(work, filepath.Base(image))
	cmd := exec.Command("mmdebstrap", append(recipe, part)...)
	cmd.Env = append(os.Environ(), "TMPDIR="+work) // removed however this ends
	if err := Tell(cmd); err != nil {
		return "", err
	}
	return image, os.Rename(part, image)
}

// Unpack unpacks an image.
func Unpack(image, dir string) error {
	return Tell(exec.Command("tar", "--extract", "--numeric-owner", "--file", image, "--directory", dir))
}

// Tell runs a command; its error has what it printed.
func Tell(cmd *exec.Cmd) error {
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, out)
	}
	return nil
}
