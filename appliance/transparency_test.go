// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// grouping is group_commit of the streams that are compared with those that have it
// off; with "off", the tests compare a node with itself.
const grouping = "on"

const (
	// testSeedEnv repeats the choices of one run; testForEnv runs longer than CI does.
	testSeedEnv = "TEST_SEED"
	testForEnv  = "TEST_FOR"
)

// side is an account of a node: its streams have group commit, or they do not.
// Names are equal on both sides, so that answers can be compared as they are.
type side struct {
	name    string
	grouped bool
	node    *running
}

// twoSides starts a node with two accounts that differ in group commit only.
// declare returns the streams and users of both, with GROUP where on or off stands,
// and AUTO where on is refused.
func twoSides(t *testing.T, declared string) (off, on *side) {
	t.Helper()
	text := `node: {data_dir: data}
listen: {client: "127.0.0.1:0", http: "127.0.0.1:0"}
storage: {limit: 16GiB}
accounts:
  plain:
` + strings.NewReplacer("GROUP", `"off"`, "AUTO", `"off"`).Replace(declared) + "  grouped:\n" + strings.NewReplacer("GROUP", fmt.Sprintf("%q", grouping), "AUTO", "auto").Replace(declared)
	r := run(t, open(t, options(t, t.TempDir(), text, &logged{}))).waitReady(t)
	return &side{name: "plain", node: r}, &side{name: "grouped", node: r, grouped: grouping == "on"}
}

// connect returns a connection of a user, which can also write what no client would.
func (s *side) connect(t *testing.T, user string, opts ...nats.Option) (*nats.Conn, *wire) {
	t.Helper()
	w := &wire{}
	opts = append(opts, nats.UserCredentials(s.node.CredsFile(s.name, user)), nats.NoReconnect(), nats.Timeout(patience), nats.SetCustomDialer(w))
	nc, err := nats.Connect("nats://"+s.node.Addresses()["client"], opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc, w
}

// wire is the connection below a client.
type wire struct {
	net.Conn
	mu sync.Mutex
}

func (w *wire) Dial(network, address string) (net.Conn, error) {
	c, err := net.Dial(network, address)
	w.Conn = c
	return w, err
}

func (w *wire) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.Conn.Write(b)
}

// publication is a message in the protocol; header is the block without its first
// line and its end, or with an = before it the block as it is.
func publication(subject, reply, header, data string) []byte {
	var b bytes.Buffer
	if header == "" {
		fmt.Fprintf(&b, "PUB %s %s %d\r\n%s\r\n", subject, reply, len(data), data)
		return b.Bytes()
	}
	block, asIs := strings.CutPrefix(header, "=")
	if !asIs {
		block = "NATS/1.0\r\n" + strings.ReplaceAll(header, "\n", "\r\n") + "\r\n\r\n"
	}
	fmt.Fprintf(&b, "HPUB %s %s %d %d\r\n%s%s\r\n", subject, reply, len(block), len(block)+len(data), block, data)
	return b.Bytes()
}

// written is a message of a stream.
type written struct {
	Subject string    `json:"subject"`
	Seq     uint64    `json:"seq"`
	Header  []byte    `json:"hdrs"`
	Data    []byte    `json:"data"`
	Time    time.Time `json:"time"`
}

// String is the message without its place and without what group commit adds to it.
func (w written) String() string {
	return fmt.Sprintf("%s %q %s", w.Subject, w.header(), short(w.Data))
}

// grouped reports whether the message came in a batch that no client made: those of
// the tests are called own.
func (w written) grouped() bool {
	return bytes.Contains(w.Header, []byte("\r\nNats-Batch-Id:")) && !bytes.Contains(w.Header, []byte("\r\nNats-Batch-Id: own"))
}

func (w written) header() string {
	if !w.grouped() {
		return strings.TrimPrefix(string(w.Header), "NATS/1.0\r\n\r\n")
	}
	var kept strings.Builder
	for line := range strings.Lines(string(w.Header)) {
		if !strings.HasPrefix(line, "Nats-Batch-") {
			kept.WriteString(line)
		}
	}
	return strings.TrimPrefix(kept.String(), "NATS/1.0\r\n\r\n")
}

func short(data []byte) string {
	if len(data) > 64 {
		return fmt.Sprintf("%q and %d bytes more", data[:48], len(data)-48)
	}
	return fmt.Sprintf("%q", data)
}

// stored reads a stream, and its state; a stream that is not there has none.
func stored(nc *nats.Conn, name string) ([]written, *jetstream.StreamState, error) {
	var info struct {
		Error *jetstream.APIError    `json:"error"`
		State *jetstream.StreamState `json:"state"`
	}
	if err := call(nc, "STREAM.INFO."+name, nil, &info); err != nil || info.Error != nil {
		return nil, nil, err
	}
	var all []written
	for seq := max(info.State.FirstSeq, 1); info.State.Msgs > 0 && seq <= info.State.LastSeq; seq++ {
		var got struct {
			Message *written            `json:"message"`
			Error   *jetstream.APIError `json:"error"`
		}
		if err := call(nc, "STREAM.MSG.GET."+name, map[string]uint64{"seq": seq}, &got); err != nil {
			return nil, nil, err
		}
		if got.Message != nil {
			all = append(all, *got.Message)
		} else if got.Error.ErrorCode != jetstream.JSErrCodeMessageNotFound {
			return nil, nil, got.Error
		}
	}
	return all, info.State, nil
}

func call(nc *nats.Conn, api string, request, into any) error {
	var body []byte
	if request != nil {
		var err error
		if body, err = json.Marshal(request); err != nil {
			return err
		}
	}
	m, err := nc.Request("$JS.API."+api, body, patience)
	if err != nil {
		return fmt.Errorf("%s: %w", api, err)
	}
	return json.Unmarshal(m.Data, into)
}

// waitFor polls without a test to end: it is for goroutines.
func waitFor(d time.Duration, f func() error) error {
	deadline := time.Now().Add(d)
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f()
		if err == nil || time.Now().After(deadline) {
			return err
		}
		<-tick.C
	}
}

// answer is a PubAck or an error, or a status of the server.
type answer struct {
	Stream    string              `json:"stream"`
	Seq       uint64              `json:"seq"`
	Duplicate bool                `json:"duplicate"`
	Count     int                 `json:"count"`
	Batch     string              `json:"batch"`
	Error     *jetstream.APIError `json:"error"`
	status    string
}

func readAnswer(m *nats.Msg) (answer, error) {
	var a answer
	if a.status = m.Header.Get("Status"); a.status != "" || len(m.Data) == 0 {
		return a, nil
	}
	err := json.Unmarshal(m.Data, &a)
	return a, err
}

// kind is the answer in the words of the table.
func (a answer) kind() string {
	switch {
	case a.status != "":
		return a.status
	case a.Error != nil:
		return fmt.Sprint(int(a.Error.ErrorCode))
	case a.Duplicate:
		return "dup"
	case a.Count > 0:
		return fmt.Sprintf("ok*%d", a.Count)
	case a.Seq > 0:
		return "ok"
	}
	return "staged"
}

var errStill = errors.New("not yet")
