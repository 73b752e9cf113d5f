// SPDX-License-Identifier: Apache-2.0

//go:build wine && linux

package winetest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/holdfast-mq/holdfast/packaging/nest"
)

// workDirVar tells the inner process its directory.
const workDirVar = "HOLDFAST_WINETEST_DIR"

// distVar names a directory with what is built of both versions, for those who run
// these tests over and over.
const distVar = "HOLDFAST_TEST_DIST_WINDOWS"

// Two versions of the same sources.
const older, newer = "0.1.0", "0.2.0"

func TestMain(m *testing.M) {
	if os.Getenv(workDirVar) != "" {
		os.Exit(inside(m))
	}
	os.Exit(outside())
}

// outside gets what needs a network, and runs the tests in namespaces of their own:
// however they end, no mount, no process and no port is left of them.
func outside() int {
	if why := missing(); why != "" {
		return nest.Skipped(why)
	}
	dir, err := nest.WorkDir("wine-")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer func() {
		if err := os.RemoveAll(dir); err != nil {
			fmt.Printf("tidy up: %v\n", err)
		}
	}()
	if err := prepare(dir); err != nil {
		fmt.Println(err)
		return 1
	}
	return nest.Again(workDirVar, dir, syscall.CLONE_NEWNET)
}

func inside(m *testing.M) int {
	root := filepath.Join(os.Getenv(workDirVar), "root")
	err := errors.Join(
		unix.Mount("proc", "/proc", "proc", 0, ""),
		unix.Mount("/dev", filepath.Join(root, "dev"), "", unix.MS_BIND|unix.MS_REC, ""),
		unix.Mount("proc", filepath.Join(root, "proc"), "proc", 0, ""),
		exec.Command("ip", "link", "set", "lo", "up").Run())
	if err == nil {
		err = firstBoot(root)
	}
	if err != nil {
		fmt.Printf("set up the namespaces: %v\n", err)
		return 1
	}
	return m.Run()
}

// pristine is a Windows that was booted once, of which each test has a copy: to make one
// takes longer than anything that is done to it.
const pristine = "/home/w/pristine"

func firstBoot(root string) error {
	cache, err := nest.CacheDir()
	if err != nil {
		return err
	}
	image := filepath.Join(cache, fmt.Sprintf("windows-%s.tar", nest.Key(recipe())))
	home := filepath.Join(root, "home/w")
	if _, err := os.Stat(image); err == nil {
		return nest.Unpack(image, home)
	}
	for _, args := range [][]string{{"wine64", "wineboot", "-i"}, {"wineserver", "-w"}} {
		out, err := os.Create(filepath.Join(os.Getenv(workDirVar), "boot.log")) // no pipe: services keep it open
		if err != nil {
			return err
		}
		cmd := wine(context.Background(), root, pristine, args...)
		cmd.Stdout, cmd.Stderr = out, out
		if err := errors.Join(cmd.Run(), out.Close()); err != nil {
			return fmt.Errorf("%q: %w", args, err)
		}
	}
	part := filepath.Join(os.Getenv(workDirVar), "windows.tar")
	if err := nest.Tell(exec.Command("tar", "--create", "--numeric-owner", "--file", part, "--directory", home, filepath.Base(pristine))); err != nil {
		return err
	}
	return os.Rename(part, image)
}

// wine runs a program of Wine.
func wine(ctx context.Context, root, prefix string, args ...string) *exec.Cmd {
	env := []string{root, "/usr/bin/env", "-i", "HOME=/home/w", "LC_ALL=C.UTF-8", "PATH=/usr/bin:/bin", "XDG_RUNTIME_DIR=/tmp", "WINEDEBUG=-all", "WINEPREFIX=" + prefix}
	return exec.CommandContext(ctx, "chroot", append(append(env, "/usr/lib/wine/"+args[0]), args[1:]...)...)
}

// missing says what the tests can't do without and this machine does not have.
func missing() string {
	if os.Geteuid() != 0 || runtime.GOARCH != "amd64" {
		return "root, on amd64"
	}
	return nest.Lost("mmdebstrap", "wixl", "msibuild", "osslsigncode", "ip", "tar", "unzip", "git", "go")
}

// prepare unpacks a Debian with Wine, and meanwhile builds what is tested. Wine of
// Debian 12 has not what programs of Go need; that of 13 does.
func prepare(dir string) error {
	unpacked := make(chan error, 1)
	go func() { unpacked <- unpack(dir) }()
	return errors.Join(build(dir), <-unpacked)
}

func recipe() []string {
	return []string{"--quiet", "--variant=minbase", "--include=wine64,wine,ca-certificates", "trixie"}
}

func unpack(dir string) error {
	image, err := nest.Image(recipe(), dir)
	if err != nil {
		return err
	}
	root := filepath.Join(dir, "root")
	if err := os.Mkdir(root, 0o755); err != nil {
		return err
	}
	if err := nest.Unpack(image, root); err != nil {
		return err
	}
	return os.MkdirAll(filepath.Join(root, "home/w"), 0o755)
}

// build makes MSI and zip of two versions, and the tests of packages that have code
// for Windows.
func build(dir string) error {
	top := filepath.Join("..", "..")
	for _, version := range []string{older, newer} {
		if built := os.Getenv(distVar); built != "" {
			if err := os.Symlink(filepath.Join(built, version), filepath.Join(dir, version)); err != nil {
				return err
			}
			continue
		}
		cmd := exec.Command("go", "run", "./packaging", "-windows", "-arch", "amd64", "-test-sign", "-version", version, "-out", filepath.Join(dir, version))
		cmd.Dir = top
		if err := nest.Tell(cmd); err != nil {
			return err
		}
	}
	for _, name := range parts() {
		cmd := exec.Command("go", "test", "-trimpath", "-c", "-o", filepath.Join(dir, name+".test.exe"), "./appliance/"+name)
		cmd.Dir = top
		cmd.Env = append(os.Environ(), "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0")
		if err := nest.Tell(cmd); err != nil {
			return err
		}
	}
	return nil
}
