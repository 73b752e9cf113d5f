// SPDX-License-Identifier: Apache-2.0

package appliance_test

import (
	"slices"
	"testing"

	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/appliance/engine"
)

// notOffered are fields of the JetStream API that can't be declared, each with
// its reason.
var notOffered = map[string]map[string]string{
	"stream": {
		"name": "the name is the key under streams",
	},
	"consumer": {
		"name":         "the name is the key under consumers",
		"durable_name": "a declared consumer is durable under its own name: one that disappears would lose its position",
		"direct":       "internal: made by servers for direct reads of mirrors",
		"sourcing":     "internal: made by servers for streams that copy others",
	},
}

// TestEveryAPIFieldIsOfferedOrHasAReason fails when nats-server gains a field
// that the key table does not have, and when the table has one that the API lost.
func TestEveryAPIFieldIsOfferedOrHasAReason(t *testing.T) {
	for _, c := range []struct {
		object  string
		api     []string
		offered []string
	}{
		{"stream", engine.StreamFields(), config.APIFields[config.Stream]()},
		{"consumer", engine.ConsumerFields(), config.APIFields[config.Consumer]()},
		{"source", engine.StreamSourceFields(), config.APIFields[config.StreamSource]()},
		{"source consumer", engine.StreamSourceConsumerFields(), config.APIFields[config.SourceConsumer]()},
		{"external", engine.ExternalFields(), config.APIFields[config.External]()},
		{"placement", engine.PlacementFields(), config.APIFields[config.Placement]()},
		{"republish", engine.RePublishFields(), config.APIFields[config.Republish]()},
		{"transform", engine.SubjectTransformFields(), config.APIFields[config.Transform]()},
		{"consumer limits", engine.ConsumerLimitsFields(), config.APIFields[config.ConsumerLimits]()},
	} {
		if len(c.api) == 0 {
			t.Errorf("%s: got no fields from the API, want some", c.object)
		}
		for _, f := range c.api {
			_, excused := notOffered[c.object][f]
			switch offered := slices.Contains(c.offered, f); {
			case offered && excused:
				t.Errorf("%s.%s is offered and on the list of reasons", c.object, f)
			case !offered && !excused:
				t.Errorf("%s.%s of the API is neither offered nor on the list of reasons", c.object, f)
			}
		}
		for _, f := range c.offered {
			if !slices.Contains(c.api, f) {
				t.Errorf("%s.%s is offered and not a field of the API", c.object, f)
			}
		}
	}
}

// TestOwnKeysAreNotAPIFields keeps the two sets apart: a new field of the API
// must not mean something else here.
func TestOwnKeysAreNotAPIFields(t *testing.T) {
	api := map[string][]string{
		"accounts.*.streams.*.":             engine.StreamFields(),
		"accounts.*.streams.*.consumers.*.": engine.ConsumerFields(),
	}
	own := 0
	for _, k := range config.Keys() {
		if !k.Own {
			continue
		}
		own++
		for prefix, fields := range api {
			if slices.ContainsFunc(fields, func(f string) bool { return k.Path == prefix+f }) {
				t.Errorf("own key %s is a field of the API too", k.Path)
			}
		}
	}
	if own < 5 {
		t.Errorf("got %d own keys, want the known ones: is the walk right?", own)
	}
}
