// SPDX-License-Identifier: Apache-2.0

package jetstream_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"

	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/bootstrap"
	"github.com/holdfast-mq/holdfast/bootstrap/jetstream"
)

// startWithoutJetStream runs a server in which the test can answer for the API:
// lists with gaps come from clusters in trouble and from newer versions only.
func startWithoutJetStream(t *testing.T) (*jetstream.Client, *nats.Conn) {
	t.Helper()
	s := run(t, &server.Options{DontListen: true, NoSigs: true, NoLog: true})
	nc, err := nats.Connect("", nats.InProcessServer(s), nats.Timeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	user, _ := newKey(t, nkeys.CreateUser)
	c := jetstream.New(s, func(string) (string, []byte, error) {
		seed, err := user.Seed()
		return "not looked at", seed, err
	})
	t.Cleanup(c.Close)
	return c, nc
}

func TestSilentJetStreamIsNotAnEmptyOne(t *testing.T) {
	c, _ := startWithoutJetStream(t)
	have, err := c.Observe(t.Context(), []string{"shop"})
	if diag.CodeOf(err) != diag.CodeObserve || diag.Hint(err) == "" {
		t.Errorf("got %v, want code %s and a hint", err, diag.CodeObserve)
	}
	plan := bootstrap.Diff(shop(stream(t, "A", `{}`, consumer(t, "c", `{}`))), have, nil)
	if plan.Count(bootstrap.Unknown) != 2 || plan.Count(bootstrap.Create) != 0 {
		t.Errorf("got\n%swant all unknown and nothing created", plan)
	}
	if c.Execute(t.Context(), plan, jetstream.Order{}).Converged() {
		t.Error("got converged, want not")
	}
}

func TestObserveMarksWhatAListLeavesOut(t *testing.T) {
	c, nc := startWithoutJetStream(t)
	answer := func(subject string, pages map[int]string) {
		if _, err := nc.Subscribe("$JS.API."+subject, func(m *nats.Msg) {
			var req struct {
				Offset int `json:"offset"`
			}
			if err := json.Unmarshal(m.Data, &req); err != nil {
				t.Error(err)
			}
			page, ok := pages[req.Offset]
			if !ok {
				t.Errorf("%s: got a request for offset %d, want one of %v", subject, req.Offset, pages)
			}
			if err := m.Respond([]byte(page)); err != nil {
				t.Error(err)
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	answer("STREAM.LIST", map[int]string{
		// DOWN stands in both lists: all its servers are away. The page has three names.
		0: `{"total":4,"offset":0,"limit":256,"streams":[
			{"config":{"name":"A"},"state":{"consumer_count":2}},
			{"config":{"name":"DOWN"},"state":{"consumer_count":1}}],
			"missing":["DOWN","NEWER"],"offline":{"NEWER":"unsupported - required API level: 9"}}`,
		3: `{"total":4,"offset":3,"limit":256,"streams":[{"config":{"name":"Z"},"state":{}}]}`,
	})
	answer("CONSUMER.LIST.A", map[int]string{
		0: `{"total":2,"consumers":[{"name":"c","config":{"name":"c","durable_name":"c"}}],"missing":["lost"]}`,
	})
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	plan := bootstrap.Diff(shop(
		stream(t, "A", `{}`, consumer(t, "c", `{}`), consumer(t, "lost", `{}`)),
		stream(t, "DOWN", `{}`),
		stream(t, "NEWER", `{}`, consumer(t, "d", `{}`)),
		stream(t, "Z", `{}`),
	), observe(t, c, "shop"), nil)
	const want = `Could not be read:
  unknown   consumer shop/A/lost: its leader did not answer
  unknown   stream   shop/DOWN: its leader did not answer
  unknown   stream   shop/NEWER: unsupported - required API level: 9
  unknown   consumer shop/NEWER/d: its stream could not be read: unsupported - required API level: 9

4 not compared, 3 as declared
`
	if diff := cmp.Diff(want, plan.String()); diff != "" {
		t.Errorf("plan (-want +got):\n%s", diff)
	}
	for _, a := range plan.Actions {
		if silent := a.Op == bootstrap.Unknown && a.Stream != "NEWER"; a.Silent != silent {
			t.Errorf("%s: got silent %t, want %t", a.Path(), a.Silent, silent)
		}
	}
}
