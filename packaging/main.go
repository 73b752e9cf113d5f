// SPDX-License-Identifier: Apache-2.0

// Command packaging builds what is installed: static binaries in tarballs, one
// for each Linux architecture, with checksums. Two builds of the same commit
// are equal to the last bit.
package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// platforms are what tarballs are built for.
var platforms = []struct{ arch, goarm string }{{"amd64", ""}, {"arm64", ""}, {"arm", "7"}}

func main() {
	if err := build(context.Background(), os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintf(os.Stderr, "packaging: %v\n", err)
		os.Exit(1)
	}
}

func build(ctx context.Context, args []string, out, errs io.Writer) error {
	fs := flag.NewFlagSet("packaging", flag.ContinueOnError)
	fs.SetOutput(errs)
	root := fs.String("root", ".", "root of the source tree")
	dist := fs.String("out", "dist", "directory for what is built")
	version := fs.String("version", "0.1.0-dev", "version that the binaries report")
	if err := fs.Parse(args); err != nil {
		return err
	}
	epoch, err := commitTime(ctx, *root)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(*dist, 0o755); err != nil {
		return fmt.Errorf("make %s: %w", *dist, err)
	}
	var sums strings.Builder
	for _, p := range platforms {
		name := fmt.Sprintf("holdfast_%s_linux_%s%s.tar.gz", *version, p.arch, armSuffix(p.goarm))
		path := filepath.Join(*dist, name)
		if err := buildOne(ctx, *root, path, *version, p.arch, p.goarm, epoch); err != nil {
			return fmt.Errorf("build %s: %w", name, err)
		}
		sum, err := checksum(path)
		if err != nil {
			return err
		}
		fmt.Fprintf(&sums, "%s  %s\n", sum, name)
		fmt.Fprintf(out, "%s\n", path)
	}
	return os.WriteFile(filepath.Join(*dist, "SHA256SUMS"), []byte(sums.String()), 0o644)
}

func armSuffix(goarm string) string {
	if goarm == "" {
		return ""
	}
	return "v" + goarm
}

func buildOne(ctx context.Context, root, path, version, arch, goarm string, epoch time.Time) (err error) {
	tmp, err := os.MkdirTemp("", "holdfast-packaging-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	binary := filepath.Join(tmp, "holdfast")
	if err := compile(ctx, root, binary, version, arch, goarm); err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	files, err := contents(root, binary)
	if err != nil {
		return err
	}
	return writeTarball(f, strings.TrimSuffix(filepath.Base(path), ".tar.gz"), files, epoch)
}

// compile makes a static binary that holds no trace of where it was built.
func compile(ctx context.Context, root, binary, version, arch, goarm string) error {
	revision, err := git(ctx, root, "rev-parse", "HEAD")
	if err != nil {
		return err
	}
	ldflags := fmt.Sprintf("-s -w -buildid= -X main.version=%s -X main.revision=%s", version, revision)
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-buildvcs=false", "-ldflags", ldflags, "-o", binary, "./cmd/holdfast")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch, "GOARM="+goarm)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build: %w: %s", err, out)
	}
	return nil
}

// commitTime dates every file, unless $SOURCE_DATE_EPOCH does.
func commitTime(ctx context.Context, root string) (time.Time, error) {
	text := os.Getenv("SOURCE_DATE_EPOCH")
	if text == "" {
		var err error
		if text, err = git(ctx, root, "log", "-1", "--format=%ct"); err != nil {
			return time.Time{}, err
		}
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("read the time of the commit: %w", err)
	}
	return time.Unix(seconds, 0).UTC(), nil
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
