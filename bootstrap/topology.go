// SPDX-License-Identifier: Apache-2.0

package bootstrap

import "github.com/holdfast-mq/holdfast/appliance/diag"

// Topology is what the configuration asks for.
type Topology struct {
	Accounts []Account `json:"accounts"`
}

// Account is a declared account and its streams.
type Account struct {
	Name    string   `json:"name"`
	Pos     diag.Pos `json:"pos,omitzero"`
	Streams []Stream `json:"streams,omitempty"`
}

// Stream is a declared stream. Values are those of the JetStream API's JSON,
// numbers as json.Number.
type Stream struct {
	Name string   `json:"name"`
	Pos  diag.Pos `json:"pos,omitzero"`
	// Set holds the fields the file sets; only these are compared.
	Set map[string]any `json:"set,omitempty"`
	// Defaults holds Holdfast's own values for a create. They are never
	// compared: an existing stream keeps what it has.
	Defaults map[string]any `json:"defaults,omitempty"`
	// Fields is where each set field stands in the file, by dotted path.
	Fields    map[string]diag.Pos `json:"fields,omitempty"`
	Consumers []Consumer          `json:"consumers,omitempty"`
}

// Consumer is a declared durable consumer; its maps are those of Stream.
type Consumer struct {
	Name     string              `json:"name"`
	Pos      diag.Pos            `json:"pos,omitzero"`
	Set      map[string]any      `json:"set,omitempty"`
	Defaults map[string]any      `json:"defaults,omitempty"`
	Fields   map[string]diag.Pos `json:"fields,omitempty"`
}
