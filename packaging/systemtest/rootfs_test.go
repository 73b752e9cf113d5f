// SPDX-License-Identifier: Apache-2.0

//go:build system && linux

package systemtest

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

// Root file systems of Debian 12, each unpacked once; containers are overlays
// on them. nats-server is the distribution's, which sits on our port.
var (
	debian        = sync.OnceValues(func() (string, error) { return rootFS() })
	debianWithRPM = sync.OnceValues(func() (string, error) { return rootFS("rpm") })
)

const (
	suite = "bookworm"
	basis = "systemd,systemd-sysv,dbus,iproute2,procps,nats-server"
)

// rootFS unpacks the system with these packages, and returns where.
func rootFS(extra ...string) (string, error) {
	recipe := []string{
		"--quiet", "--variant=minbase", "--include=" + strings.Join(append([]string{basis}, extra...), ","),
		`--customize-hook=chroot "$1" systemctl disable nats-server`,
		`--customize-hook=: >"$1/etc/machine-id"`,
		suite,
	}
	image, err := cached(recipe)
	if err != nil {
		return "", fmt.Errorf("make a root file system of %s: %w", suite, err)
	}
	dir, err := newDir("rootfs-")
	if err != nil {
		return "", err
	}
	if err := os.Chmod(dir, 0o755); err != nil {
		return "", err
	}
	if out, err := exec.Command("tar", "--extract", "--numeric-owner", "--file", image, "--directory", dir).CombinedOutput(); err != nil {
		return "", fmt.Errorf("unpack %s: %w: %s", image, err, out)
	}
	return dir, nil
}

// cached returns the tar file that a recipe of mmdebstrap makes. It appears
// whole or not at all, and another recipe is another file.
func cached(recipe []string) (string, error) {
	cache, err := cacheDir()
	if err != nil {
		return "", err
	}
	key := sha256.Sum256([]byte(strings.Join(recipe, "\n")))
	image := filepath.Join(cache, fmt.Sprintf("rootfs-%x.tar", key[:8]))
	if _, err := os.Stat(image); err == nil {
		return image, nil
	}
	part := filepath.Join(os.Getenv(workDirVar), filepath.Base(image))
	cmd := exec.Command("mmdebstrap", append(recipe, part)...)
	cmd.Env = append(os.Environ(), "TMPDIR="+os.Getenv(workDirVar)) // removed however this ends
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("mmdebstrap: %w: %s", err, out)
	}
	return image, os.Rename(part, image)
}
