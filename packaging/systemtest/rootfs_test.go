// SPDX-License-Identifier: Apache-2.0

//go:build system && linux

package systemtest

import (
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/holdfast-mq/holdfast/packaging/nest"
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
	image, err := nest.Image(recipe, os.Getenv(workDirVar))
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
	return dir, nest.Unpack(image, dir)
}
