// SPDX-License-Identifier: Apache-2.0

package bootstrap_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/holdfast-mq/holdfast/bootstrap"
)

func TestCopyNamesAreShortEnoughAndDiffer(t *testing.T) {
	long := strings.Repeat("S", 254)
	names := map[string]string{}
	for _, s := range []string{"ORDERS", long, long + "S"} {
		name := bootstrap.CopyName(s)
		if len(name) > 255 {
			t.Errorf("copy of a name of %d bytes: got %d bytes, want 255 at most", len(s), len(name))
		}
		if other, taken := names[name]; taken {
			t.Errorf("copies of %q and %q: got the same name %q", s, other, name)
		}
		names[name] = s
		config := map[string]any{"name": name, "metadata": map[string]any{bootstrap.MetaCopyOf: s}}
		if of, ok := bootstrap.CopyOf(config); !ok || of != s {
			t.Errorf("CopyOf: got %q %v, want %q true", of, ok, s)
		}
	}
}

func TestOnlyMarkedStreamsAreCopies(t *testing.T) {
	for _, config := range []map[string]any{
		nil,
		{"name": bootstrap.CopyName("ORDERS")},
		{"name": "OTHER", "metadata": map[string]any{bootstrap.MetaCopyOf: "ORDERS"}},
	} {
		if of, ok := bootstrap.CopyOf(config); ok {
			t.Errorf("CopyOf(%v): got %q, want no copy", config, of)
		}
	}
}

func TestInterruptedNamesWhatHasToBeFinished(t *testing.T) {
	config := map[string]any{"metadata": map[string]any{
		"team": "a", bootstrap.MetaConsumer + "w2": "x", bootstrap.MetaConsumer + "w1": "x",
	}}
	if stream, consumers := bootstrap.Interrupted(config); stream || !slices.Equal(consumers, []string{"w1", "w2"}) {
		t.Errorf("got %v %v, want false [w1 w2]", stream, consumers)
	}
	for _, key := range []string{bootstrap.MetaParked, bootstrap.MetaRestored} {
		config := map[string]any{"metadata": map[string]any{key: "x"}}
		if stream, _ := bootstrap.Interrupted(config); !stream {
			t.Errorf("%s: got false, want true", key)
		}
	}
}
