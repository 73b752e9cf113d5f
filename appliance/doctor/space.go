// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/holdfast-mq/holdfast/appliance/datadir"
	"github.com/holdfast-mq/holdfast/appliance/disk"
	"github.com/holdfast-mq/holdfast/appliance/howto"
)

// lookAtSpace compares what the volume has with what streams may take.
func lookAtSpace(ctx context.Context, m *machine) report {
	var r report
	dir := m.storeDir()
	if dir == "" {
		return skip("the configuration names no data directory")
	}
	v, err := datadir.VolumeOf(dir)
	if err != nil {
		r.blind(m, err.Error())
		return r
	}
	total, free := int64(v.Total), int64(v.Free)
	minFree := m.in.Config.Storage.KeepFree(total)
	text := fmt.Sprintf("%s of %s free", size(free), size(total))
	fix := lines(comment("make the volume of %s larger, or delete what is not needed (%s); the largest:", dir, howto.Here().MakeRoom()),
		howto.Here().Largest(dir))
	switch {
	case free < minFree:
		r.fail(fmt.Sprintf("%s on the volume of %s, less than storage.min_free keeps (%s)", text, dir, size(minFree)), "publishers are refused until there is room", fix)
	case free < 2*minFree:
		r.warn(fmt.Sprintf("%s on the volume of %s, and storage.min_free keeps %s", text, dir, size(minFree)), "soon publishers are refused", fix)
	}
	promised := m.in.Config.Promised(total)
	if used, known := m.storeUsed(ctx); known {
		text += fmt.Sprintf(", streams use %s and may take %s", size(used), size(promised))
		if len(r.findings) == 0 && promised-used > free {
			r.warn(text+" of the volume of "+dir, "the volume is full before the streams have what they may take",
				lines(comment("lower max_bytes of streams or storage.limit in %s, or:", m.in.File), fix))
		}
	}
	r.measured("%s", text+m.lookAtInodes(&r, dir))
	return r
}

func (m *machine) lookAtInodes(r *report, dir string) string {
	path := dir
	for {
		total, free, err := inodes(path)
		if errors.Is(err, fs.ErrNotExist) && path != filepath.Dir(path) {
			path = filepath.Dir(path)
			continue
		}
		if err != nil || total == 0 {
			return "" // has no fixed number
		}
		text := fmt.Sprintf("%d of %d inodes free", free, total)
		fix := lines(comment("delete files, or make the volume of %s anew with more inodes; the directories with the most:", dir),
			fmt.Sprintf("du -x --inodes --max-depth=2 $(df --output=target %s | tail -n 1) 2>/dev/null | sort -n | tail -n 15", quote(path)))
		switch {
		case free < disk.LeastInodes(total):
			r.fail(text+" on the volume of "+dir, "publishers are refused until files can be created", fix)
		case free < 2*disk.LeastInodes(total):
			r.warn(text+" on the volume of "+dir, "soon publishers are refused", fix)
		}
		return ", " + text
	}
}

// storeUsed is what messages take on disk; known is false when it can't be seen.
func (m *machine) storeUsed(ctx context.Context) (used int64, known bool) {
	if node, err := m.ask(ctx); err == nil {
		return node.StoreUsed, true
	}
	err := filepath.WalkDir(filepath.Join(m.dataDir(), "jetstream"), func(_ string, d fs.DirEntry, err error) error {
		switch {
		case gone(err):
			return nil // a node that runs deletes blocks meanwhile
		case err != nil:
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		}
		if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
			used += info.Size()
		}
		return nil
	})
	return used, err == nil
}
