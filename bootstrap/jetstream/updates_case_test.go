// SPDX-License-Identifier: Apache-2.0

package jetstream_test

import (
	"encoding/json"
	"maps"
	"os"
	"testing"
)

// updateCase is one change of one field of one existing object. In every map
// null means that the field is not there.
type updateCase struct {
	Kind  string `json:"kind"`
	Field string `json:"field"`
	Step  string `json:"step"`
	// Have is what the object is created with, Prepare a first update once the
	// messages are stored, Want the update that is judged.
	Have    map[string]any `json:"have"`
	Prepare map[string]any `json:"prepare"`
	Want    map[string]any `json:"want"`
	// With is what the update is sent with a second time, once it was refused.
	With map[string]any `json:"with"`
	// Alone makes classify answer for the update without With, too.
	Alone bool `json:"alone"`
	// Then, ThenAcked and ThenPublish show what the accepted update removes later.
	Then        map[string]any `json:"then"`
	ThenWait    uint64         `json:"then_wait"`
	ThenAcked   int            `json:"then_acked"`
	ThenPublish int            `json:"then_publish"`
	// Stream is the consumer's stream, Consumer a consumer of the stream.
	Stream   map[string]any `json:"stream"`
	Consumer map[string]any `json:"consumer"`
	Acked    int            `json:"acked"`
	// Messages and Copied are stored before; 3 of our own if neither is set, of
	// which the stream keeps Stored, or all.
	Messages *int   `json:"messages"`
	Copied   uint64 `json:"copied"`
	Stored   uint64 `json:"stored"`
	// Wait is how many messages the server removes in the background, Settle how
	// many there are once it has copied others.
	Wait   uint64 `json:"wait"`
	Settle uint64 `json:"settle"`
	Listen string `json:"listen"`
	API    string `json:"api"`
	R3     bool   `json:"r3"`
	Only   string `json:"only"`
	// Other says why the outcome depends on something besides the field.
	Other string `json:"other"`
}

func updateCases(t *testing.T) []updateCase {
	t.Helper()
	f, err := os.Open("../testdata/updates.json")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d := json.NewDecoder(f)
	d.UseNumber()
	d.DisallowUnknownFields()
	var cases []updateCase
	if err := d.Decode(&cases); err != nil {
		t.Fatal(err)
	}
	return cases
}

// laid returns a copy of base with over on top.
func laid(base map[string]any, over ...map[string]any) map[string]any {
	out := maps.Clone(base)
	for _, o := range over {
		for k, v := range o {
			if v == nil {
				delete(out, k)
			} else {
				out[k] = v
			}
		}
	}
	return out
}
