// SPDX-License-Identifier: Apache-2.0

package config_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-mq/holdfast/appliance/config"
)

// TestAnEmptyObjectSaysThatThereIsNone is how a file takes back what was set before.
func TestAnEmptyObjectSaysThatThereIsNone(t *testing.T) {
	const text = `accounts:
  a:
    streams:
      S:
        subjects: ["s"]
        max_bytes: 1MiB
        mirror: {}
        republish: {}
        subject_transform: {}
        placement: {}
        consumer_limits: {}
`
	cfg, l := config.Load(config.Options{File: "/x.yaml", Texts: []config.Text{{Name: "/x.yaml", Data: []byte(text)}}})
	if len(l) > 0 {
		t.Fatalf("got %v, want no problem", l)
	}
	s := cfg.Accounts["a"].Streams["S"]
	if s.IsMirror() {
		t.Error("got a mirror, want none")
	}
	got := config.APIValues(s)
	for _, key := range []string{"mirror", "republish", "subject_transform", "placement", "consumer_limits"} {
		if diff := cmp.Diff(map[string]any{}, got[key]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", key, diff)
		}
	}
	// Half an object is still a mistake.
	half := `accounts: {a: {streams: {S: {max_bytes: 1MiB, mirror: {opt_start_seq: 5}}}}}`
	if _, l := config.Load(config.Options{File: "/x.yaml", Texts: []config.Text{{Name: "/x.yaml", Data: []byte(half)}}}); l.Err() == nil {
		t.Error("got no error for a mirror without a name, want one")
	}
}
