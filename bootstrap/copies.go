// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
)

// Metadata of a recreation, or the like, that is under way. Each holds what it takes to go on
// after a stop, so that nothing but the server has to be asked.
const (
	// MetaCopyOf marks a copy and names the stream it belongs to.
	MetaCopyOf = "holdfast.copy_of"
	// MetaParked marks a stream that takes no messages while it is copied.
	MetaParked = "holdfast.parked"
	// MetaRestored marks a stream that was made anew from its copy.
	MetaRestored = "holdfast.restored"
	// MetaConsumer is followed by the name of a consumer that is made anew.
	MetaConsumer = "holdfast.consumer."
	// MetaWidened marks a stream with retention interest that gets more copies, and keeps
	// everything until they are there.
	MetaWidened = "holdfast.widened"

	copyPrefix = "HOLDFAST_COPY_"
	// maxName is what the server takes as a name.
	maxName = 255
)

// CopyName returns the name of the stream that keeps the messages of a stream
// while that is deleted and made anew.
func CopyName(stream string) string {
	if len(copyPrefix)+len(stream) <= maxName {
		return copyPrefix + stream
	}
	sum := sha256.Sum256([]byte(stream))
	return copyPrefix + hex.EncodeToString(sum[:16])
}

// CopyOf returns the stream that a copy belongs to. When that stream does not
// exist the copy holds its messages: it must never be created empty then.
func CopyOf(config map[string]any) (stream string, ok bool) {
	metadata, _ := config["metadata"].(map[string]any)
	stream = text(metadata[MetaCopyOf])
	return stream, stream != "" && text(config["name"]) == CopyName(stream)
}

// Interrupted reports that a recreation of the stream or of one of its consumers
// was cut short and has to be finished. The recreation of a stream that has a
// copy was cut short too, whatever this says; consumers are named, sorted.
func Interrupted(config map[string]any) (stream bool, consumers []string) {
	metadata, _ := config["metadata"].(map[string]any)
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		if name, ok := strings.CutPrefix(key, MetaConsumer); ok {
			consumers = append(consumers, name)
		}
	}
	return metadata[MetaParked] != nil || metadata[MetaRestored] != nil, consumers
}

// Widening reports that a stream with retention interest was to get more copies, and that
// was not brought to its end.
func Widening(config map[string]any) bool {
	metadata, _ := config["metadata"].(map[string]any)
	return metadata[MetaWidened] != nil
}
