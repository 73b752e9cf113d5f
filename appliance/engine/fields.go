// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"reflect"
	"slices"
	"strings"

	"github.com/nats-io/nats-server/v2/server"
)

// ServerVersion is the version of the embedded nats-server.
func ServerVersion() string { return server.VERSION }

// The functions below return the JSON names of the fields of JetStream's
// objects in the embedded server, sorted, so that a test can tell whether the
// configuration offers them all.

// StreamFields lists those of StreamConfig.
func StreamFields() []string { return jsonNames(server.StreamConfig{}) }

// ConsumerFields lists those of ConsumerConfig.
func ConsumerFields() []string { return jsonNames(server.ConsumerConfig{}) }

// StreamSourceFields lists those of StreamSource.
func StreamSourceFields() []string { return jsonNames(server.StreamSource{}) }

// StreamSourceConsumerFields lists those of StreamConsumerSource.
func StreamSourceConsumerFields() []string { return jsonNames(server.StreamConsumerSource{}) }

// ExternalFields lists those of ExternalStream.
func ExternalFields() []string { return jsonNames(server.ExternalStream{}) }

// PlacementFields lists those of Placement.
func PlacementFields() []string { return jsonNames(server.Placement{}) }

// RePublishFields lists those of RePublish.
func RePublishFields() []string { return jsonNames(server.RePublish{}) }

// SubjectTransformFields lists those of SubjectTransformConfig.
func SubjectTransformFields() []string { return jsonNames(server.SubjectTransformConfig{}) }

// ConsumerLimitsFields lists those of StreamConsumerLimits.
func ConsumerLimitsFields() []string { return jsonNames(server.StreamConsumerLimits{}) }

func jsonNames(v any) []string {
	var names []string
	for _, f := range reflect.VisibleFields(reflect.TypeOf(v)) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.IsExported() && name != "" && name != "-" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
