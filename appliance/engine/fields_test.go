// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestServerVersionIsPinned(t *testing.T) {
	if got, want := ServerVersion(), "2.15.3"; got != want {
		t.Errorf("got nats-server %s, want %s: a bump re-runs the update table and the power-cut tests", got, want)
	}
}

func TestFieldsAreThoseOfTheServer(t *testing.T) {
	got := map[string][]string{
		"source":          StreamSourceFields(),
		"source.consumer": StreamSourceConsumerFields(),
		"source.external": ExternalFields(),
		"placement":       PlacementFields(),
		"republish":       RePublishFields(),
		"transform":       SubjectTransformFields(),
		"limits":          ConsumerLimitsFields(),
	}
	want := map[string][]string{
		"source": {
			"consumer", "external", "filter_subject", "name", "opt_start_seq", "opt_start_time", "subject_transforms",
		},
		"source.consumer": {"deliver_subject", "name"},
		"source.external": {"api", "deliver"},
		"placement":       {"cluster", "preferred", "tags"},
		"republish":       {"dest", "headers_only", "src"},
		"transform":       {"dest", "src"},
		"limits":          {"inactive_threshold", "max_ack_pending"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("fields differ (-want +got):\n%s", diff)
	}
	if got, want := len(StreamFields()), 38; got != want {
		t.Errorf("got %d stream fields, want %d: %v", got, want, StreamFields())
	}
	if got, want := len(ConsumerFields()), 35; got != want {
		t.Errorf("got %d consumer fields, want %d: %v", got, want, ConsumerFields())
	}
}
