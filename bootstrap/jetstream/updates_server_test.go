// SPDX-License-Identifier: Apache-2.0

package jetstream_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// lanes is how many update cases run side by side, each in an account of its own.
const lanes = 4

// site is a real server, or a cluster of them, with one connection per lane.
type site struct {
	name    string
	servers []*server.Server
	lanes   chan *nats.Conn
}

// settle waits for what a busy machine may take long for.
func settle(t *testing.T, check func() error) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		<-time.After(5 * time.Millisecond)
	}
}

// siteServer starts a server from a configuration text. Ports come from the kernel.
func siteServer(t *testing.T, name, cluster string) *server.Server {
	t.Helper()
	var accounts strings.Builder
	for i := range lanes {
		fmt.Fprintf(&accounts, "  L%d { jetstream: enabled, users: [{user: L%d, password: p}] }\n", i, i)
	}
	dir := t.TempDir()
	parity := map[string]string{"n1": "odd", "n2": "even", "n3": "odd"}[name]
	text := fmt.Sprintf(`server_name: %s
listen: "127.0.0.1:-1"
server_tags: [all, %s]
jetstream { store_dir: %q, max_memory_store: 256MiB, max_file_store: 1GiB }
accounts {
%s  SYS { users: [{user: sys, password: p}] }
}
system_account: SYS
%s`, name, parity, dir, accounts.String(), cluster)
	file := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	opts, err := server.ProcessConfigFile(file)
	if err != nil {
		t.Fatal(err)
	}
	opts.NoSigs, opts.NoLog = true, true
	s, err := server.NewServer(opts)
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	return s
}

func startStandalone(t *testing.T) *site {
	t.Helper()
	return newSite(t, "standalone", siteServer(t, "n1", ""))
}

// startCluster runs three servers. A server has to name routes before it may be
// part of a JetStream cluster, and the first has nobody to name yet: it gets an
// address where nobody listens, and the others find it.
func startCluster(t *testing.T) *site {
	t.Helper()
	const nobody = "nats-route://127.0.0.1:1"
	block := func(routes ...string) string {
		return fmt.Sprintf("cluster { name: C, listen: \"127.0.0.1:-1\", routes: [%s] }\n", strings.Join(routes, ", "))
	}
	first := siteServer(t, "n1", block(nobody, nobody, nobody))
	settle(t, func() error {
		if first.ClusterAddr() == nil {
			return errors.New("n1 has no cluster port")
		}
		return nil
	})
	route := "nats-route://" + first.ClusterAddr().String()
	servers := []*server.Server{first, siteServer(t, "n2", block(route, nobody, nobody)), siteServer(t, "n3", block(route, nobody, nobody))}
	settle(t, func() error {
		for _, s := range servers {
			if s.JetStreamIsLeader() {
				if peers := s.JetStreamClusterPeers(); len(peers) != 3 {
					return fmt.Errorf("meta leader knows %d servers, want 3", len(peers))
				}
				return nil
			}
		}
		return errors.New("cluster has no meta leader")
	})
	return newSite(t, "cluster", servers...)
}

// newSite connects the lanes and gives each the streams that others copy.
func newSite(t *testing.T, name string, servers ...*server.Server) *site {
	t.Helper()
	x := &site{name: name, servers: servers, lanes: make(chan *nats.Conn, lanes)}
	for i := range lanes {
		nc, err := nats.Connect("", nats.InProcessServer(servers[0]), nats.UserInfo(fmt.Sprintf("L%d", i), "p"),
			nats.ErrorHandler(func(*nats.Conn, *nats.Subscription, error) {}))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		for _, origin := range []string{"origin", "other"} {
			stream := strings.ToUpper(origin)
			settle(t, func() error {
				_, err := api(nc, "STREAM.CREATE."+stream, map[string]any{"name": stream, "subjects": []string{origin + ".*"}})
				return err
			})
			publishThree(t, nc, stream, origin, nil)
		}
		x.lanes <- nc
	}
	return x
}

// listen subscribes, and waits until every server knows: the one that checks an
// update and the one that makes it can be two.
func (x *site) listen(t *testing.T, nc *nats.Conn, to string) {
	t.Helper()
	sub, err := nc.SubscribeSync(to)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sub.Unsubscribe() })
	settle(t, func() error {
		for _, s := range x.servers {
			account, err := s.LookupAccount(nc.Opts.User)
			if err != nil {
				return err
			}
			if !account.SubscriptionInterest(to) {
				return fmt.Errorf("server %s knows nobody who listens on %s", s.Name(), to)
			}
		}
		return nil
	})
}

// consumed waits until every copy of a stream has its consumer: a copy that does
// not have it yet drops what nobody waits for.
func (x *site) consumed(t *testing.T, nc *nats.Conn, stream string, copies uint64) {
	t.Helper()
	settle(t, func() error {
		n := uint64(0)
		for _, s := range x.servers {
			info, err := s.Jsz(&server.JSzOptions{Account: nc.Opts.User, Streams: true, Consumer: true})
			if err != nil {
				return err
			}
			for _, a := range info.AccountDetails {
				for _, d := range a.Streams {
					if d.Name == stream && len(d.Consumer) > 0 {
						n++
					}
				}
			}
		}
		if n != copies {
			return fmt.Errorf("stream %s: %d copies have the consumer, want %d", stream, n, copies)
		}
		return nil
	})
}

// refusal is an error answer of the API.
type refusal struct {
	Code        int    `json:"err_code"`
	Description string `json:"description"`
}

func (r *refusal) Error() string { return fmt.Sprintf("%d %s", r.Code, r.Description) }

// api sends one request and returns the answer.
func api(nc *nats.Conn, subject string, body any) (map[string]any, error) {
	var data []byte
	if body != nil {
		var err error
		if data, err = json.Marshal(body); err != nil {
			return nil, err
		}
	}
	msg, err := nc.Request("$JS.API."+subject, data, 10*time.Second)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", subject, err)
	}
	var answer struct {
		Error *refusal `json:"error"`
	}
	if err := json.Unmarshal(msg.Data, &answer); err != nil {
		return nil, err
	}
	if answer.Error != nil {
		return nil, answer.Error
	}
	d := json.NewDecoder(strings.NewReader(string(msg.Data)))
	d.UseNumber()
	var out map[string]any
	return out, d.Decode(&out)
}
