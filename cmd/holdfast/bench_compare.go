// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/holdfast-mq/holdfast/appliance"
	"github.com/holdfast-mq/holdfast/appliance/admin"
	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/appliance/loadtest"
	"github.com/holdfast-mq/holdfast/cmd/internal/child"
)

const (
	// compareDirPrefix begins the directories of nodes that are compared with.
	compareDirPrefix = "bench-compare-"
	// compareStale is the age at which such a directory belongs to no run any more.
	compareStale = 10 * time.Minute
	// compareStart is how long such a node may take to start, compareAsk how often it is asked.
	compareStart = 30 * time.Second
	compareAsk   = 20 * time.Millisecond
	// storeDir is where a node keeps its messages, below its data directory.
	storeDir = "jetstream"
)

// compare repeats the publishing with a node in durability interval. When that is not
// possible here the report says why: what was measured before is good without it.
func (b *benching) compare(ctx context.Context, s admin.Status, report *benchReport) error {
	skip := func(why string) error {
		report.ComparisonSkipped = why
		return nil
	}
	dir := s.Node.DataDir
	switch {
	case b.noCompare:
		return nil
	case s.Durability.Mode != "strict":
		return skip("the node itself is in durability " + s.Durability.Mode)
	case b.compareDir != "":
		dir = b.compareDir
	case !sameVolume(dir, filepath.Join(dir, storeDir)):
		return skip("the message store is a volume of its own; name a directory on it with --compare-dir")
	}
	removeStale(dir)
	own, err := os.MkdirTemp(dir, compareDirPrefix)
	if errors.Is(err, fs.ErrPermission) {
		return skip(fmt.Sprintf("this user may not write to %s; run it as the node's user, or name a directory on the same disk with --compare-dir", dir))
	}
	if err != nil {
		return fmt.Errorf("make a directory for the comparison: %w", err)
	}
	c, err := b.compareIn(ctx, own)
	if left := os.RemoveAll(own); left != nil {
		err = errors.Join(err, fmt.Errorf("%w: %w", loadtest.ErrLeftOver, left))
	}
	if err != nil {
		report.ComparisonSkipped = "it did not come to its end"
		return diag.Fail(diag.CodeOf(err), fmt.Errorf("compare with durability interval: %w", err), "what was measured before is good without it; --no-compare leaves it out")
	}
	c.TimesFaster = c.Publish.MessagesPerSecond / report.Phases[0].MessagesPerSecond
	report.Comparison = &c
	return nil
}

// compareIn runs a node in a directory for as long as it takes.
func (b *benching) compareIn(ctx context.Context, dir string) (_ comparison, err error) {
	data := filepath.Join(dir, "data")
	node, err := startCompared(dir, data, b.load.Space)
	if err != nil {
		return comparison{}, err
	}
	defer func() {
		// Nothing in it is worth a clean stop.
		node.Kill()
		<-node.Ended
	}()
	client := admin.NewClient(appliance.FindSocket(data))
	var status admin.Status
	err = node.Await(ctx, compareStart, compareAsk, func(ctx context.Context) error {
		var err error
		if status, err = client.Status(ctx); err == nil && !status.Ready {
			err = fmt.Errorf("not ready: %s", strings.Join(status.Missing, "; "))
		}
		return err
	})
	if err != nil {
		return comparison{}, err
	}
	login, err := client.Login(ctx, "", "", false)
	if err != nil {
		return comparison{}, err
	}
	load := b.load
	load.PublishOnly = true
	result, err := b.putLoad(ctx, targetOf(login), load, "durability interval, ", nil)
	if err != nil {
		return comparison{}, err
	}
	return comparison{
		Durability: status.Durability.Mode, SyncIntervalSeconds: status.Durability.SyncIntervalSeconds, Publish: phaseOf(result.Phases[0], b.load.Size),
	}, nil
}

// startCompared starts this program as a node of its own.
func startCompared(dir, data string, space int64) (*child.Process, error) {
	// JSON is YAML, and needs no rules for quoting paths.
	text, err := json.Marshal(map[string]any{
		"node":     map[string]any{"data_dir": data},
		"listen":   map[string]any{"client": "127.0.0.1:0", "http": "127.0.0.1:0"},
		"storage":  map[string]any{"durability": "interval", "limit": 2 * space},
		"accounts": map[string]any{"bench": map[string]any{}},
	})
	file := filepath.Join(dir, "holdfast.yaml")
	if err = errors.Join(err, os.WriteFile(file, text, 0o600)); err != nil {
		return nil, fmt.Errorf("write its configuration: %w", err)
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	// The place was chosen for its disk.
	cmd := exec.Command(self, "run", "--config", file, "--allow-unsafe-storage")
	cmd.Args[0] = os.Args[0]
	cmd.Dir = dir
	// Of a service that runs this command, perhaps; the last value counts.
	cmd.Env = append(child.Environment(os.Environ()), "RUNTIME_DIRECTORY=", "NOTIFY_SOCKET=", "CREDENTIALS_DIRECTORY=")
	detach(cmd)
	return child.Start(cmd, filepath.Join(dir, "node.log"))
}

// removeStale removes what killed runs have left.
func removeStale(dir string) {
	old, err := filepath.Glob(filepath.Join(dir, compareDirPrefix+"*"))
	if err != nil {
		return // the directory's name is a bad pattern, and then nothing is found
	}
	for _, d := range old {
		if info, err := os.Lstat(d); err == nil && info.IsDir() && time.Since(info.ModTime()) > compareStale {
			_ = os.RemoveAll(d) // the next run tries again
		}
	}
}
