// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/holdfast-mq/holdfast/cmd/internal/child"
)

// lab is where measurements happen: the two binaries and a directory.
type lab struct {
	holdfast string
	stock    string
	dir      string // of this run; removed by close
	parent   string
	env      []string
	size     size
	store    int64     // bytes of the store to recover; 0: none
	crashed  *crashed  // the one there is now
	told     io.Writer // what happens meanwhile
}

func openLab(ctx context.Context, o options) (_ *lab, err error) {
	l, err := openLabWith(o, "")
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close())
		}
	}()
	l.stock = filepath.Join(l.dir, "nats-server")
	if runtime.GOOS == "windows" {
		l.stock += ".exe"
	}
	// The version in go.mod, built like `make build` builds Holdfast.
	l.env = append(l.env, "CGO_ENABLED=0")
	_, err = l.output(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w -buildid=", "-o", l.stock, "github.com/nats-io/nats-server/v2")
	return l, err
}

// openLabWith uses a nats-server that is there.
func openLabWith(o options, stock string) (*lab, error) {
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return nil, fmt.Errorf("make data directory: %w", err)
	}
	l := &lab{holdfast: o.holdfast, stock: stock, parent: o.dir, size: size{streams: o.streams, consumers: o.consumers}, env: child.Environment(os.Environ()), store: o.store << 20, told: io.Discard}
	var err error
	if l.dir, err = os.MkdirTemp(o.dir, "run-"); err != nil {
		return nil, fmt.Errorf("make data directory: %w", err)
	}
	return l, nil
}

// close removes what the run left. The directory above it stays if others use it.
func (l *lab) close() error {
	if err := os.RemoveAll(l.dir); err != nil {
		return fmt.Errorf("remove data: %w", err)
	}
	_ = os.Remove(l.parent)
	return nil
}

// environment says what the figures were measured on, without saying where.
type environment struct {
	Holdfast   string `json:"holdfast"`
	NATSServer string `json:"nats_server"`
	Go         string `json:"go"`
	Platform   string `json:"platform"`
	Cores      int    `json:"cores"`
	FileSystem string `json:"file_system"`
}

func (e environment) String() string {
	return fmt.Sprintf("%s · %s · %s · %s · %d cores · %s", e.Holdfast, e.NATSServer, e.Go, e.Platform, e.Cores, e.FileSystem)
}

func (l *lab) environment(ctx context.Context) (environment, error) {
	e := environment{Platform: runtime.GOOS + "/" + runtime.GOARCH, Cores: runtime.NumCPU(), FileSystem: fileSystem(l.dir)}
	// "holdfast 1.2.3 (…)": the rest is below.
	version, err := l.output(ctx, l.holdfast, "version")
	if err != nil {
		return e, err
	}
	e.Holdfast, _, _ = strings.Cut(version, " (")
	version, err = l.output(ctx, l.stock, "--version")
	if err != nil {
		return e, err
	}
	e.NATSServer = strings.Replace(version, ": v", " ", 1)
	e.Go = runtime.Version()
	if info, err := buildinfo.ReadFile(l.holdfast); err == nil && info.GoVersion != e.Go {
		return e, fmt.Errorf("compare binaries: holdfast was built with %s, nats-server with %s: build both with one", info.GoVersion, e.Go)
	}
	return e, nil
}

// fileSystem is the type of the file system that dir is on.
func fileSystem(dir string) string {
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return "file system unknown"
	}
	return fileSystemIn(string(mounts), dir)
}

func fileSystemIn(mounts, dir string) string {
	best, kind := "", "file system unknown"
	for line := range strings.Lines(mounts) {
		f := strings.Fields(line)
		if len(f) < 3 || len(f[1]) < len(best) {
			continue
		}
		// The last mount on a point hides the earlier ones.
		if rel, err := filepath.Rel(f[1], dir); err == nil && rel != ".." && !strings.HasPrefix(rel, "../") {
			best, kind = f[1], f[2]
		}
	}
	return kind
}
