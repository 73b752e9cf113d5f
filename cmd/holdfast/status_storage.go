// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/holdfast-mq/holdfast/appliance/admin"
)

// storageLines say how full the disk is and how it does.
func storageLines(s admin.Storage) []string {
	lines := []string{fmt.Sprintf("%s used, %s reserved by streams, %s promised by the file, of %s; %s free on the volume",
		sizeText(s.Used), sizeText(s.Reserved), sizeText(s.Promised), sizeText(s.Limit), sizeText(s.VolumeFree))}
	switch {
	case s.WriteError != "":
		lines = append(lines, "PUBLISHING STOPPED"+stoppedSince(s)+", the data directory can't be written: "+s.WriteError)
	case s.PublishingStopped != "":
		lines = append(lines, fmt.Sprintf("PUBLISHING STOPPED%s: %s; it goes on by itself when there is room", stoppedSince(s), s.PublishingStopped))
	case s.FullInSeconds > 0 && s.FullInSeconds < (30*24*time.Hour).Seconds():
		lines = append(lines, fmt.Sprintf("at the present rate publishing stops in %s, when %s are left", since(s.FullInSeconds), sizeText(s.MinFree)))
	}
	if f := s.Flushes; f != nil {
		lines = append(lines, fmt.Sprintf("a flush took %s in the last minutes, %s at p99, %s at most", shortTime(f.P50), shortTime(f.P99), shortTime(f.Max)))
	}
	if s.WriteErrors > 0 {
		lines = append(lines, fmt.Sprintf("%s failed writes since the start", humanize.Comma(int64(s.WriteErrors))))
	}
	return lines
}

func stoppedSince(s admin.Storage) string {
	if s.PublishingStoppedSince == nil {
		return ""
	}
	return " since " + sinceWhen(*s.PublishingStoppedSince)
}

func recoveryText(r admin.Recovery) string {
	if r.BytesChecked < r.BytesToCheck {
		return fmt.Sprintf("checking stored messages, %s of %s; %d streams", sizeText(r.BytesChecked), sizeText(r.BytesToCheck), r.StreamsTotal)
	}
	return fmt.Sprintf("%d of %d streams, %s of %s; now %s", r.StreamsDone, r.StreamsTotal, sizeText(r.BytesDone), sizeText(r.BytesTotal), r.Current)
}
