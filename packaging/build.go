// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// complete asks git for what nobody said, and looks at the rest before anything
// is built.
func (t *tree) complete(ctx context.Context, date string) (err error) {
	if _, _, err := distVersions(t.version); err != nil {
		return err
	}
	if t.revision == "" {
		if t.revision, err = git(ctx, t.root, "rev-parse", "HEAD"); err != nil {
			return err
		}
	}
	if date == "" {
		if date, err = git(ctx, t.root, "log", "-1", "--format=%ct"); err != nil {
			return err
		}
	}
	seconds, err := strconv.ParseInt(date, 10, 64)
	if err != nil {
		return fmt.Errorf("read the date: %w", err)
	}
	t.date = time.Unix(seconds, 0).UTC()
	return nil
}

// make compiles, and collects what goes with the binary.
func (t tree) make(ctx context.Context, p platform, tmp string) (components, error) {
	c := components{binary: filepath.Join(tmp, "holdfast")}
	if err := t.compile(ctx, c.binary, p); err != nil {
		return c, err
	}
	modules, err := linkedModules(ctx, t.root, p)
	if err != nil {
		return c, err
	}
	c.notice = notice(modules)
	text, err := os.ReadFile(filepath.Join(t.root, "CHANGELOG.md"))
	if err != nil {
		return c, err
	}
	if c.releases, err = readChangelog(string(text), t.version, t.date); err != nil {
		return c, fmt.Errorf("read CHANGELOG.md: %w", err)
	}
	return c, nil
}

// compile makes a static binary that holds no trace of where it was built.
func (t tree) compile(ctx context.Context, binary string, p platform) error {
	ldflags := fmt.Sprintf("-s -w -buildid= -X main.version=%s -X main.revision=%s", t.version, t.revision)
	_, err := goCommand(ctx, t.root, p, "build", "-trimpath", "-buildvcs=false", "-ldflags", ldflags, "-o", binary, "./cmd/holdfast")
	return err
}

func goCommand(ctx context.Context, root string, p platform, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+cmp.Or(p.os, "linux"), "GOARCH="+p.arch, "GOARM="+p.goarm)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w: %s", args[0], err, strings.TrimSpace(errs.String()))
	}
	return out, nil
}

func git(ctx context.Context, root string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}

// writeSums writes what `sha256sum -c` reads.
func writeSums(file string, names []string) error {
	dist := filepath.Dir(file)
	var sums strings.Builder
	for _, name := range names {
		sum, err := checksum(filepath.Join(dist, name))
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%s  %s\n", sum, name)
	}
	return os.WriteFile(file, []byte(sums.String()), 0o644)
}

func checksum(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", h.Sum(nil)), nil
}
