// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/holdfast-mq/holdfast/appliance/admin"
)

// growthText is how far a node is that brings its messages into the cluster.
func growthText(g admin.Growth) string {
	size := func(b int64) string { return humanize.IBytes(uint64(b)) }
	var text, now string
	if g.Current != "" {
		now = ", now " + g.Current
	}
	switch g.Step {
	case admin.GrowHeld:
		return fmt.Sprintf("node %s brings its messages; this node is open for clients after that", g.Node)
	case admin.GrowWaits:
		text = fmt.Sprintf("node %s brings %d streams with %s, and serves them alone until the others are there", g.Node, g.Streams, size(g.Bytes))
	case admin.GrowAssigns:
		text = fmt.Sprintf("node %s tells the cluster about its streams: %d of %d%s; it serves them alone meanwhile", g.Node, g.StreamsDone, g.Streams, now)
	case admin.GrowEnters:
		text = fmt.Sprintf("node %s enters the cluster; clients come back in a moment", g.Node)
	case admin.GrowSettles:
		text = fmt.Sprintf("%s the cluster takes over %d streams of node %s, %s, and has them on that node alone", bar(g.Work()), g.Streams, g.Node, size(g.Bytes))
	case admin.GrowCopies:
		text = fmt.Sprintf("%s the messages of node %s are copied: %d of %d streams, %s of %s%s; until then they are on that node alone",
			bar(g.Work()), g.Node, g.StreamsDone, g.Streams, size(g.BytesDone), size(g.Bytes), now)
	case admin.GrowConsumers:
		text = fmt.Sprintf("%s the messages of node %s are copied, and its consumers are brought over: %d of %d%s", bar(g.Work()), g.Node, g.ConsumersDone, g.Consumers, now)
	case admin.GrowOpens:
		text = fmt.Sprintf("%s everything of node %s is copied; waiting for %s to open for clients", bar(g.Work()), g.Node, cmp.Or(g.Current, "the others"))
	}
	return text
}

// clusterWait waits until a cluster is as it should be, and shows what is missing.
type clusterWait struct {
	mu  sync.Mutex
	now string
}

func (w *clusterWait) text(took time.Duration) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return fmt.Sprintf("%s, %v", cmp.Or(w.now, "asking the node"), took.Round(time.Second))
}

// until asks now and then, until nothing is wrong.
func (w *clusterWait) until(ctx context.Context, ask func(context.Context) (admin.Status, error)) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		s, err := ask(ctx)
		missing := ""
		switch {
		case err != nil: // a node that is opened anew does not answer for a moment
			missing = err.Error()
		case s.Cluster == nil:
			return nil // the caller says so
		case s.Cluster.Growth != nil:
			g := *s.Cluster.Growth
			if missing = growthText(g); g.Step == admin.GrowSettles && g.Problem != "" {
				missing += ": " + g.Problem
			}
		case s.Cluster.Leader == "" || troubled(*s.Cluster) || !s.Ready:
			missing = strings.Join(append([]string{clusterText(*s.Cluster)}, append(s.Missing, firstTrouble(*s.Cluster)...)...), "; ")
		default:
			return nil
		}
		w.mu.Lock()
		w.now = missing
		w.mu.Unlock()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
