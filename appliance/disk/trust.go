// SPDX-License-Identifier: Apache-2.0

package disk

import (
	"fmt"
	"time"
)

// Opinion is what there is to think of a disk's flushes.
type Opinion string

// The opinions. No program can see that a disk keeps its promise: a power cut shows
// it. That it can't keep it shows sometimes.
const (
	Plausible  Opinion = "plausible"
	Suspicious Opinion = "suspicious"
	Broken     Opinion = "broken"
	Unknown    Opinion = "unknown"
)

// Trust is an opinion with its reason.
type Trust struct {
	Opinion Opinion `json:"opinion"`
	Why     string  `json:"why"`
}

const (
	// turning is less than what a rotating disk needs to come by the place again, with
	// luck: 15000 turns a minute are 4 ms each.
	turning = time.Millisecond
	// memory is faster than flash can be written; a cache in a disk answers so.
	memory = 15 * time.Microsecond
)

// judge says what to think of a device that took so long for flushes, and to which the
// kernel sent so many meanwhile; -1 where that is not known.
func judge(d Device, l Latency, sent int64) Trust {
	p50 := time.Duration(l.P50 * float64(time.Second))
	took := p50.Round(time.Microsecond)
	switch {
	case d.Name == "":
		return Trust{Unknown, "which device the directory is on can't be seen; a flush took " + took.String()}
	case d.WriteCache == CacheBack && sent >= 0 && sent < int64(l.Count)/2:
		return Trust{Broken, fmt.Sprintf("%s has a cache that a power cut empties, and of %d flushes the kernel passed %d on to it: barriers are off on the way", d.Name, l.Count, sent)}
	case d.Rotating && !d.Virtual && d.WriteCache == CacheBack && p50 < turning:
		return Trust{Suspicious, fmt.Sprintf("%s rotates, and a flush took %s: it did not wait for the platter", d.Name, took)}
	case d.WriteCache == CacheThrough:
		return Trust{Plausible, fmt.Sprintf("%s says that what it has taken is kept (no volatile cache)", d.Name)}
	case d.Virtual:
		return Trust{Unknown, fmt.Sprintf("%s is a virtual disk: flushes reach its host, and what that does with them can't be seen from here; a flush took %s", d.Name, took)}
	case d.WriteCache == "":
		return Trust{Unknown, fmt.Sprintf("whether %s has a volatile cache can't be seen; a flush took %s", d.Name, took)}
	case p50 < memory:
		return Trust{Suspicious, fmt.Sprintf("a flush of %s took %s, which is memory: its cache is protected against power cuts, or it does not do what it says", d.Name, took)}
	}
	return Trust{Plausible, fmt.Sprintf("%s was sent each flush, and took %s for it", d.Name, took)}
}
