// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"fmt"
	"math"
	"time"

	"github.com/dustin/go-humanize"
)

// Room is what a volume has left. Bytes are those that the node's user may use.
type Room struct {
	Total, Free uint64 // bytes
	// Inodes are files that may still be made; InodesTotal is 0 where the file
	// system makes them as needed.
	Inodes, InodesTotal uint64
}

const (
	// fastest is what a program is assumed to be able to write, in bytes per second:
	// it bounds how long the guard may look away.
	fastest = 4 << 30
	// shortest and longest are the time between two looks.
	shortest = 25 * time.Millisecond
	longest  = time.Second
	// ahead is how far the guard looks into the future: at the pace of the moment
	// the line must not be crossed within it.
	ahead = 4 * shortest
	// maxLead bounds how far before the line publishers are stopped, in bytes.
	maxLead = 256 << 20
	// leastInodes is what streams, consumers and the node's own files need to go on.
	leastInodes = 1000
	// rememberFor is how long the trend goes back.
	rememberFor = 10 * time.Minute
)

// Guard decides when publishing stops. It is not safe for concurrent use.
type Guard struct {
	// MinFree is what must stay free, in bytes.
	MinFree uint64

	braked bool
	seen   Room
	at     time.Time
	since  time.Time // the first look
	pace   float64   // bytes per second that the volume loses now
	trend  float64   // bytes per second that the volume loses, over some minutes
}

// Verdict is what a Guard thinks of what it saw.
type Verdict struct {
	// Braked says that nothing may be published to files.
	Braked bool
	// Why says it in words, for people: what is short, and how much of it.
	Why string
	// FullIn is when MinFree will be reached as things go; 0 when they don't go there.
	FullIn time.Duration
	// Next is when to look again.
	Next time.Duration
}

// See takes a look at the volume, at a time that never runs backwards.
func (g *Guard) See(r Room, at time.Time) Verdict {
	pace := g.measure(r, at)
	low, high := g.MinFree, enough(g.MinFree)
	inodes := r.InodesTotal > 0 && r.Inodes < LeastInodes(r.InodesTotal)
	switch {
	case inodes, float64(r.Free)-lead(pace, low) < float64(low):
		g.braked = true
	case r.Free >= high && (r.InodesTotal == 0 || r.Inodes >= 2*LeastInodes(r.InodesTotal)):
		g.braked = false
	}
	v := Verdict{Braked: g.braked, Next: g.next(r)}
	switch {
	case !g.braked:
		// A trend of a moment says nothing about days.
		if g.trend > 0 && at.Sub(g.since) >= rememberFor {
			v.FullIn = inSeconds((float64(r.Free) - float64(low)) / g.trend)
		}
	case inodes:
		v.Why = fmt.Sprintf("%d files can still be made on the volume, of %d", r.Inodes, r.InodesTotal)
	default:
		v.Why = fmt.Sprintf("%s are free on the volume, and storage.min_free keeps %s", humanize.IBytes(r.Free), humanize.IBytes(g.MinFree))
	}
	return v
}

// measure returns the pace of the moment and keeps the trend, both in bytes per
// second that the volume loses.
func (g *Guard) measure(r Room, at time.Time) (pace float64) {
	last, passed := g.seen, at.Sub(g.at)
	first := g.at.IsZero()
	if !first && passed < shortest {
		return g.pace // too short a time to measure anything
	}
	g.seen, g.at = r, at
	if first {
		g.since = at
		return 0
	}
	g.pace = (float64(last.Free) - float64(r.Free)) / passed.Seconds()
	weight := 1 - math.Exp(-passed.Seconds()/rememberFor.Seconds())
	g.trend += (g.pace - g.trend) * weight
	return g.pace
}

// lead is how far before the line publishers are stopped, in bytes: what is written
// until the next looks. A moment's burst far away from it is no reason.
func lead(pace float64, line uint64) float64 {
	return min(max(pace, 0)*ahead.Seconds(), float64(line)/2, maxLead)
}

// next looks away for a quarter of the time in which the line could be reached.
func (g *Guard) next(r Room) time.Duration {
	if g.braked {
		return 4 * shortest
	}
	distance := float64(r.Free) - float64(g.MinFree)
	return min(max(inSeconds(distance/fastest/4), shortest), longest)
}

// enough is what must be free for publishing to go on, for some time.
func enough(minFree uint64) uint64 { return minFree + clamp(minFree/10, 1<<20, 1<<30) }

// LeastInodes is how many files must stay possible, of a total.
func LeastInodes(total uint64) uint64 { return min(leastInodes, total/20) }

func inSeconds(s float64) time.Duration {
	if s > math.MaxInt64/1e9 {
		return math.MaxInt64
	}
	return time.Duration(s * float64(time.Second))
}

func clamp(v, low, high uint64) uint64 { return min(max(v, low), high) }
