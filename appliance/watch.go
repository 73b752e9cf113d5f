// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"
)

// watchEvery is how often the files of the configuration are looked at. Looking
// works on every file system and through symbolic links that are switched over.
const watchEvery = time.Second

// watchFiles tells of a changed configuration once its files have stayed the same
// for two looks, for an editor writes in several steps. It returns when ctx is done.
func (a *Appliance) watchFiles(ctx context.Context, changed chan<- struct{}) {
	if a.opts.Watched == nil {
		return
	}
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	seen := a.watched
	last := seen
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := look(a.opts.Watched())
		if now == last && now != seen {
			seen = now
			select {
			case changed <- struct{}{}:
			default: // one is waiting
			}
		}
		last = now
	}
}

// look identifies files by what a write changes.
func look(files []string) string {
	var b strings.Builder
	for _, f := range files {
		info, err := os.Stat(f)
		if err != nil {
			fmt.Fprintf(&b, "%s gone\n", f)
			continue
		}
		fmt.Fprintf(&b, "%s %d %d\n", f, info.Size(), info.ModTime().UnixNano())
	}
	return b.String()
}
