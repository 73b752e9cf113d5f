// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"log/slog"
	"math"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"github.com/holdfast-mq/holdfast/appliance/config"
)

// memoryShare of what the cgroup or the machine has is the runtime's soft
// limit; the rest is for what the runtime does not see, such as page tables
// and thread stacks.
const memoryShare = 0.9

// limitMemory gives the Go runtime a soft limit from the cgroup, else from the
// machine's memory, and returns it in bytes. $GOMEMLIMIT wins. Without a limit
// the heap of a busy node may double before the collector runs, and a small
// edge machine kills the process.
func limitMemory(log *slog.Logger) int64 {
	_, err := memlimit.Set(
		memlimit.WithRatio(memoryShare),
		memlimit.WithProvider(memlimit.ApplyFallback(memlimit.FromCgroup, memlimit.FromSystem)),
	)
	if err != nil {
		log.Debug("memory limit not set", keyErr, err)
	}
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
		log.Debug("memory limited", keyLimit, config.Size(limit).String())
		return limit
	}
	if total, err := memlimit.FromSystem(); err == nil {
		return int64(float64(total) * memoryShare)
	}
	const smallest = 512 << 20 // an edge machine of the smallest kind
	return smallest
}
