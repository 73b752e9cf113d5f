// SPDX-License-Identifier: Apache-2.0

package join

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
)

// MinSecret is how long the secret of a cluster has to be, in bytes: who sits in
// between gets a proof to try words against.
const MinSecret = 32

const (
	// magic tells the protocol and its version before anything else.
	magic = "holdfast join 1\n"
	// patience bounds one exchange.
	patience = 10 * time.Second
	// largest bounds a message, in bytes.
	largest = 16 << 20

	proofSize = sha256.Size
	// The two sides prove different things, so that none can be sent back.
	joinerSays = "holdfast joiner"
	keeperSays = "holdfast keeper"
)

// Request is what a node says about itself.
type Request struct {
	Cluster string   `json:"cluster"` // name of the cluster
	Node    string   `json:"node"`    // name of the node
	Version string   `json:"version"` // of Holdfast
	Peers   []string `json:"peers"`   // as its file has them
	// Operator is the public key of the operator it has already; empty for a node that
	// has no identity yet.
	Operator string    `json:"operator,omitempty"`
	Time     time.Time `json:"time"` // of its clock
	// Look is true for a machine that only wants to know whether it would fit: it is handed
	// nothing.
	Look bool `json:"look,omitempty"`
	// Process tells processes apart: one that is asked by itself is not another.
	Process string `json:"process,omitempty"`
}

// Certificate is one that a node uses.
type Certificate struct {
	Name     string    `json:"name"`
	NotAfter time.Time `json:"not_after"`
	// Problem is what the node itself has to say of it; empty while all is well.
	Problem string `json:"problem,omitempty"`
}

// Answer is what it gets.
type Answer struct {
	// Refused says why it gets nothing; empty when it does.
	Refused string `json:"refused,omitempty"`
	// Wait is true when what is refused may be given later.
	Wait bool `json:"wait,omitempty"`
	// None is true when the node that answers has no identity itself.
	None bool `json:"none,omitempty"`
	// Node and Time are those of the node that answers.
	Node    string    `json:"node"`
	Time    time.Time `json:"time"`
	Version string    `json:"version,omitempty"` // of Holdfast
	NATS    string    `json:"nats,omitempty"`    // version of nats-server
	Process string    `json:"process,omitempty"` // see Request
	// Sees are the nodes that it has a route to.
	Sees         []string      `json:"sees,omitempty"`
	Certificates []Certificate `json:"certificates,omitempty"`
	// Alone are streams, ACCOUNT/STREAM, that no other node keeps: so it is known where they
	// are when it is gone. A long list may be cut off.
	Alone []string `json:"alone,omitempty"`
	// Lacks says what the node that answers does not have yet of what it should; empty
	// when it has everything.
	Lacks string `json:"lacks,omitempty"`
	// Stopped says why the node that answers takes nothing from publishers, and StoppedFor
	// for how long it does: clocks may be apart.
	Stopped    string        `json:"stopped,omitempty"`
	StoppedFor time.Duration `json:"stopped_for,omitempty"`
	// Wants identifies what the file of the node that answers asks for: nodes whose files
	// ask for the same have the same.
	Wants string `json:"wants,omitempty"`
	// Decides is what its file says of what the node that leads decides for all, and is not
	// in Wants, by key; nil where it is not said.
	Decides map[string]string `json:"decides"`
	// FileRefused says why its file, as it is now, is not in force; empty when it is.
	FileRefused string `json:"file_refused,omitempty"`
	// Grows is the name of the node that brings its messages into the cluster, which nobody
	// may use before it has; empty when there is none.
	Grows string `json:"grows,omitempty"`
	// Copies is how far the copies are of what it brought; nil when it brought nothing, or
	// they are there.
	Copies *Copies `json:"copies,omitempty"`
	// Free is how many bytes are free on the volume of the node that answers.
	Free uint64 `json:"free,omitempty"`
	// Stored is how many bytes of messages it has.
	Stored int64 `json:"stored,omitempty"`
	// Identity, Routes and Clients are secret: the keys of all accounts, the CA of the
	// routes and, where there is one, that of the client listeners. They are there only
	// for a node without an identity.
	Identity []byte `json:"identity,omitempty"`
	Routes   []byte `json:"routes,omitempty"`
	Clients  []byte `json:"clients,omitempty"`
}

// Copies is how far the copies are that a node makes of its streams for the others.
type Copies struct {
	Step          string `json:"step"`
	Streams       int    `json:"streams"`
	StreamsDone   int    `json:"streams_done"`
	Consumers     int    `json:"consumers"`
	ConsumersDone int    `json:"consumers_done"`
	Bytes         int64  `json:"bytes"`
	BytesDone     int64  `json:"bytes_done"`
	Current       string `json:"current,omitempty"`
}

// String leaves the secrets out.
func (a Answer) String() string { return fmt.Sprintf("answer of %s, refused: %q", a.Node, a.Refused) }

// GoString leaves the secrets out.
func (a Answer) GoString() string { return a.String() }

// errSecret is that of a peer who knows another secret, or none.
var errSecret = errors.New("the other side does not know the cluster's secret")

// proof is what only who knows the secret can say on this connection.
func proof(secret []byte, says string, state tls.ConnectionState) ([]byte, error) {
	bound, err := state.ExportKeyingMaterial("EXPORTER-Channel-Binding", nil, 32)
	if err != nil {
		return nil, fmt.Errorf("bind the proof to the connection: %w", err)
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(says))
	mac.Write(bound)
	return mac.Sum(nil), nil
}

// check reads a proof.
func check(r io.Reader, secret []byte, says string, state tls.ConnectionState) error {
	want, err := proof(secret, says, state)
	if err != nil {
		return err
	}
	got := make([]byte, proofSize)
	if _, err := io.ReadFull(r, got); err != nil {
		return err
	}
	if !hmac.Equal(got, want) {
		return errSecret
	}
	return nil
}

// send writes a message: its length, and JSON.
func send(w io.Writer, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	if len(data) > largest {
		return fmt.Errorf("a message of %d bytes is too long", len(data))
	}
	_, err = w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(data))), data...))
	return err
}

// receive reads a message.
func receive(r io.Reader, v any) error { return receiveAtMost(r, v, largest) }

func receiveAtMost(r io.Reader, v any, most uint32) error {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	size := binary.BigEndian.Uint32(head[:])
	if size > most {
		return fmt.Errorf("a message of %d bytes is too long", size)
	}
	data := make([]byte, size)
	if _, err := io.ReadFull(r, data); err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("decode: %w", err)
	}
	return nil
}
