// SPDX-License-Identifier: Apache-2.0

package jetstream_test

import (
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/holdfast-mq/holdfast/bootstrap"
	"github.com/holdfast-mq/holdfast/bootstrap/jetstream"
)

// fieldCase is a specification; each is created on a real server and compared
// with what the server then says.
type fieldCase struct {
	Name   string         `json:"name"`
	Stream map[string]any `json:"stream"`
	// Consumer is declared on the stream, if set.
	Consumer map[string]any `json:"consumer"`
}

func fieldCases(t *testing.T) []fieldCase {
	t.Helper()
	f, err := os.Open("testdata/fields.json")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d := json.NewDecoder(f)
	d.UseNumber()
	var cases []fieldCase
	if err := d.Decode(&cases); err != nil {
		t.Fatal(err)
	}
	return cases
}

func TestEveryFieldIsKeptOnceCreated(t *testing.T) {
	n := startNode(t, "shop")
	c := newClient(t, n)
	origin := stream(t, "ORIGIN", `{"subjects":["origin.>"]}`)
	direct := stream(t, "DIRECT", `{"subjects":["direct.>"],"allow_direct":true}`)
	converge(t, c, shop(origin, direct))
	for _, tc := range fieldCases(t) {
		t.Run(tc.Name, func(t *testing.T) {
			s := bootstrap.Stream{Name: "T", Set: tc.Stream}
			if tc.Consumer != nil {
				s.Consumers = []bootstrap.Consumer{{Name: "c", Set: tc.Consumer}}
			}
			want := shop(s, origin, direct)
			converge(t, c, want)
			wantKept(t, c, want)
			// The same creation again is what a repeat after a lost answer does.
			plan := bootstrap.Diff(want, bootstrap.Observed{}, nil)
			if err := c.Execute(t.Context(), plan, jetstream.Order{}).Err(); err != nil {
				t.Errorf("create again: got %v, want no error", err)
			}
			call(t, connect(t, n, "shop"), "STREAM.DELETE.T", "")
		})
	}
}

// Fields no specification can set at creation, with the reason.
var notAtCreate = []string{
	"name", "durable_name", // the key in the file
	"sealed",             // refused at creation
	"direct", "sourcing", // the server's own
}

func TestFieldCasesCoverEveryFieldOfTheServer(t *testing.T) {
	used := map[string]bool{}
	for _, tc := range fieldCases(t) {
		for f := range tc.Stream {
			used["stream "+f] = true
		}
		for f := range tc.Consumer {
			used["consumer "+f] = true
		}
	}
	for kind, typ := range map[string]reflect.Type{
		"stream": reflect.TypeFor[server.StreamConfig](), "consumer": reflect.TypeFor[server.ConsumerConfig](),
	} {
		for i := range typ.NumField() {
			name, _, _ := strings.Cut(typ.Field(i).Tag.Get("json"), ",")
			if !used[kind+" "+name] && !slices.Contains(notAtCreate, name) {
				t.Errorf("field %s of the %s: got no case in testdata/fields.json, want one", name, kind)
			}
		}
	}
}
