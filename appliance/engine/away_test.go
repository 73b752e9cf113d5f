// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go"
)

func TestSendAwayEndsConnectionsOfClientsAlone(t *testing.T) {
	r := newRealm(t, "shop")
	e := started(t, r, r.settings(t), nil)
	addr, err := e.OpenClientPort()
	if err != nil {
		t.Fatal(err)
	}
	own := connect(t, r, e, "shop")
	login, _ := r.login(t, "shop")
	client, err := nats.Connect("nats://"+addr.String(), login, nats.ReconnectWait(0))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if n := e.SendAway(); n != 1 {
		t.Errorf("sent %d away, want the client alone", n)
	}
	eventually(t, func() error {
		if client.Stats().Reconnects == 0 || !client.IsConnected() {
			return errors.New("the client is not back")
		}
		return nil
	})
	if err := own.Flush(); err != nil {
		t.Errorf("a connection of this process: %v", err)
	}
}
