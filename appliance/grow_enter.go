// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/holdfast-mq/holdfast/appliance/admin"
	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/appliance/engine"
	"github.com/holdfast-mq/holdfast/bootstrap/jetstream"
)

// inventory is what the store has, with the names of accounts.
func (a *Appliance) inventory() ([]engine.Inventory, error) {
	streams, err := engine.TakeInventory(a.dir.StoreDir())
	for i := range streams {
		streams[i].Account = a.accountName(streams[i].Account)
	}
	return streams, err
}

// startGrowth starts the second engine, once.
func (a *Appliance) startGrowth(ctx context.Context) error {
	g := a.growth
	if g.engine != nil {
		return nil
	}
	dir := a.dir.GrowingDir()
	at := place{name: a.dir.NodeName(), store: dir, resolver: filepath.Join(dir, "resolver")}
	if err := os.MkdirAll(at.resolver, 0o700); err != nil {
		return fmt.Errorf("prepare the cluster: %w", err)
	}
	s := engineSettings(a.opts.Config, at, a.identity.Trust(), a.storeLimit, a.memLimit, a.opts.Version)
	s.ClientHost, s.ClientPort = "127.0.0.1", 0
	s.Tags = append(slices.Clone(s.Tags), growTag)
	var err error
	if s.Cluster, err = g.cluster.engineSettings(); err != nil {
		return err
	}
	e, err := engine.New(s, engine.Names{Account: a.accountName, User: a.userName, Subjects: func(s string) string { return s }}, a.log.With(keyWhat, "growing"))
	if err != nil {
		return err
	}
	if err := e.Start(ctx); err != nil {
		return errors.Join(err, e.Stop())
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.engine, g.js = e, a.newClient(e)
	return nil
}

func assignedOf(s engine.Inventory) jetstream.Assigned {
	return jetstream.Assigned{Account: s.Account, Stream: s.Stream, Config: s.Config, Consumers: s.Consumers}
}

// assign makes the cluster know the streams, as far as it does not yet.
func (a *Appliance) assign(ctx context.Context, streams []engine.Inventory) error {
	g := a.growth
	var wanted []string
	sums := newGrowthSums(streams)
	tell := func() {
		g.say(func(st *admin.Growth) {
			sums.tell(st)
			st.BytesDone = 0 // the cluster is told, and has nothing
		})
	}
	for _, s := range streams {
		name := s.Account + "/" + s.Stream
		wanted = append(wanted, name)
		tell()
		next := assignedOf(s)
		if reflect.DeepEqual(g.assigned[name], next) {
			sums.copied(s, nil)
			continue
		}
		if err := g.js.Assign(ctx, next, growTag); err != nil {
			return err
		}
		if err := g.js.Serves(ctx, next); err != nil {
			return err
		}
		g.assigned[name] = next
		sums.copied(s, nil)
		a.step("grow: assigned " + name)
	}
	for _, name := range slices.Sorted(maps.Keys(g.assigned)) {
		if slices.Contains(wanted, name) {
			continue
		}
		if err := g.js.Unassign(ctx, g.assigned[name].Account, g.assigned[name].Stream); err != nil {
			return err
		}
		delete(g.assigned, name)
	}
	tell()
	return nil
}

// enter moves what the cluster agreed on into the store. The engine with the messages has
// stopped.
func (a *Appliance) enter(ctx context.Context) error {
	g := a.growth
	a.step("grow: stopped")
	streams, err := a.inventory() // somebody may have made a stream meanwhile
	if err == nil {
		err = a.assign(ctx, streams)
	}
	err = errors.Join(err, g.stop())
	if err != nil {
		return err
	}
	if err := engine.KeepLinks(a.dir.StoreDir(), a.dir.KeptDir()); err != nil {
		return diag.Fail(diag.CodeClusterGrow, fmt.Errorf("keep the messages in %s: %w", a.dir.KeptDir(), err), "the file system has to know hard links, and some free space")
	}
	a.step("grow: kept")
	if err := writeInventory(a.inventoryFile(), streams); err != nil {
		return err
	}
	a.step("grow: noted")
	if err := engine.Enter(a.dir.StoreDir(), a.dir.GrowingDir(), a.identity.Trust().SystemAccount); err != nil {
		return diag.Fail(diag.CodeClusterGrow, fmt.Errorf("enter the cluster: %w", err), "it is tried again; the log has more")
	}
	a.step("grow: entered")
	return nil
}

// stop ends the second engine.
func (g *growth) stop() error {
	if g.engine == nil {
		return nil
	}
	g.js.Close()
	err := g.engine.Stop()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.engine = nil
	return err
}

func (g *growth) close() error {
	if g == nil {
		return nil
	}
	return errors.Join(g.stop(), g.cluster.close())
}

func (a *Appliance) inventoryFile() string { return filepath.Join(a.dir.GrowingDir(), inventoryName) }

// readInventory returns nothing when there is none.
func readInventory(path string) ([]engine.Inventory, error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read what was taken into the cluster: %w", err)
	}
	d := json.NewDecoder(strings.NewReader(string(text)))
	d.UseNumber()
	var streams []engine.Inventory
	if err := d.Decode(&streams); err != nil {
		return nil, fmt.Errorf("read what was taken into the cluster: %w", err)
	}
	return streams, nil
}
