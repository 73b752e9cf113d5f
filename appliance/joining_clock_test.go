// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/certs"
	"github.com/holdfast-mq/holdfast/appliance/datadir"
	"github.com/holdfast-mq/holdfast/appliance/join"
	"github.com/holdfast-mq/holdfast/appliance/porttest"
	"github.com/holdfast-mq/holdfast/bootstrap/identity"
)

// hourAhead is the clock of a node that is an hour ahead.
func hourAhead() time.Time { return time.Now().Add(time.Hour) }

// aheadIdentity is the identity that such a node made.
func aheadIdentity(t *testing.T) []byte {
	t.Helper()
	id, err := identity.Open(identity.File{Path: filepath.Join(t.TempDir(), "identity.json"), Write: datadir.WriteFile, Now: hourAhead}, nil)
	if err != nil {
		t.Fatal(err)
	}
	data, err := id.Export()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestTokensOfAClockThatIsAheadAreGood runs a node with keys and tokens that were made an
// hour from now.
func TestTokensOfAClockThatIsAheadAreGood(t *testing.T) {
	home := t.TempDir()
	o := options(t, home, shop, &logged{})
	if err := RestoreIdentity(o.Config.Node.DataDir, aheadIdentity(t), false, "test"); err != nil {
		t.Fatal(err)
	}
	run(t, open(t, o)).waitReady(t).stop(t)
}

// TestANodeJoinsOneWhoseClockIsApart takes the identity and the CA from a node that is an
// hour ahead, and says by how much.
func TestANodeJoinsOneWhoseClockIsApart(t *testing.T) {
	home, secret := t.TempDir(), strings.Repeat("s", 40)
	routes := t.TempDir()
	if _, err := certs.OpenAuto(certs.Options{Dir: routes, Write: datadir.WriteFile, Now: hourAhead, NodeName: "n1", BothEnds: true}); err != nil {
		t.Fatal(err)
	}
	ca, err := certs.Authority(routes)
	if err != nil {
		t.Fatal(err)
	}
	id := aheadIdentity(t)
	l, port := listenBehind(t)
	k, err := join.Serve(l, []byte(secret), func(r join.Request) join.Answer {
		return join.Answer{Node: "n1", Time: r.Time.Add(time.Hour), Identity: id, Routes: ca}
	}, nil, options(t, home, shop, &logged{}).Log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = k.Close() })
	write(t, filepath.Join(home, "secret"), secret)
	if err := os.Chmod(filepath.Join(home, "secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	ownPort := porttest.Free(t, 2)
	log := &logged{}
	o := options(t, home, fmt.Sprintf("%scluster: {name: c, listen: %q, advertise: %q, peers: [%q, %q, \"127.0.0.1:1\"], secret: \"file:%s\"}\n", shop,
		address(ownPort), address(ownPort), address(port), address(ownPort), filepath.Join(home, "secret")), log)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := Join(ctx, o); err != nil || ctx.Err() != nil {
		t.Fatalf("got %v and %v, want it to join", err, ctx.Err())
	}
	if n := log.count("the clocks of two nodes are apart"); n != 1 {
		t.Errorf("got that the clocks are apart %d times, want once", n)
	}
	if n := log.count("joined the cluster"); n != 1 {
		t.Errorf("got %d times that it joined, want once", n)
	}
}

func address(port int) string { return fmt.Sprintf("127.0.0.1:%d", port) }

// listenBehind listens on the port behind a free one, which it returns.
func listenBehind(t *testing.T) (net.Listener, int) {
	t.Helper()
	port := porttest.Free(t, 2)
	l, err := net.Listen("tcp", address(port+1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l, port
}
