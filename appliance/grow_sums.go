// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/dustin/go-humanize"

	"github.com/holdfast-mq/holdfast/appliance/admin"
	"github.com/holdfast-mq/holdfast/appliance/engine"
	"github.com/holdfast-mq/holdfast/bootstrap/identity"
)

// growthSums is how far the copies are of what a node brings into a cluster. What Holdfast
// keeps for itself is copied as well, and is not what people wait for. The totals are
// those of the inventory: publishers and workers go on, so that what the streams have at
// the moment goes up and down. Nothing that was done once is undone, as it is when a
// copy is behind for a moment.
type growthSums struct {
	streams, consumers         []string // account/stream and account/stream/consumer
	streamsDone, consumersDone map[string]bool
	sizes                      map[string]int64
	bytes, bytesDone           int64
}

// countsForPeople reports whether a stream is one of the users'.
func countsForPeople(s engine.Inventory) bool {
	return s.Account != identity.InternalName && s.Account != identity.SystemName
}

func newGrowthSums(streams []engine.Inventory) *growthSums {
	g := &growthSums{streamsDone: map[string]bool{}, consumersDone: map[string]bool{}, sizes: map[string]int64{}}
	for _, s := range streams {
		if !countsForPeople(s) {
			continue
		}
		name := s.Account + "/" + s.Stream
		g.streams = append(g.streams, name)
		g.sizes[name] = s.Bytes
		g.bytes += s.Bytes
		for _, c := range slices.Sorted(maps.Keys(s.Consumers)) {
			g.consumers = append(g.consumers, name+"/"+c)
		}
	}
	return g
}

// copied notes what a stream lacks yet: "" is the stream, anything else one of its
// consumers.
func (g *growthSums) copied(s engine.Inventory, lacks []string) {
	if !countsForPeople(s) {
		return
	}
	name := s.Account + "/" + s.Stream
	if !slices.Contains(lacks, "") {
		g.streamsDone[name] = true
	}
	for c := range s.Consumers {
		if !slices.Contains(lacks, c) {
			g.consumersDone[name+"/"+c] = true
		}
	}
	var whole int64
	for done := range g.streamsDone {
		whole += g.sizes[done]
	}
	g.bytesDone = max(g.bytesDone, whole)
}

// stored notes how many bytes the other node has that has the fewest.
func (g *growthSums) stored(bytes int64) { g.bytesDone = max(g.bytesDone, min(bytes, g.bytes)) }

// step is what is waited for.
func (g *growthSums) step() admin.GrowStep {
	if len(g.streamsDone) < len(g.streams) {
		return admin.GrowCopies
	}
	return admin.GrowConsumers
}

// current is the first stream, or when there is none the first consumer, that is not done.
func (g *growthSums) current() string {
	for _, name := range g.streams {
		if !g.streamsDone[name] {
			return name
		}
	}
	for _, name := range g.consumers {
		if !g.consumersDone[name] {
			return name
		}
	}
	return ""
}

func (g *growthSums) tell(s *admin.Growth) {
	s.Streams, s.StreamsDone = len(g.streams), len(g.streamsDone)
	s.Consumers, s.ConsumersDone = len(g.consumers), len(g.consumersDone)
	s.Bytes, s.BytesDone = g.bytes, g.bytesDone
	s.Current = g.current()
}

// line is for the log.
func (g *growthSums) line() string {
	return fmt.Sprintf("%s: %d of %d streams, %d of %d consumers, %s of %s, now %s", g.step(), len(g.streamsDone), len(g.streams),
		len(g.consumersDone), len(g.consumers), humanize.IBytes(uint64(g.bytesDone)), humanize.IBytes(uint64(g.bytes)), cmp.Or(g.current(), "the last checks"))
}
