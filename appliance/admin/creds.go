// SPDX-License-Identifier: Apache-2.0

package admin

import "time"

// Login is what a client needs to connect and to be of use. It holds a secret.
type Login struct {
	URL         string   `json:"url"`       // for clients elsewhere: the first of listen.advertise
	LocalURL    string   `json:"local_url"` // for clients on this machine
	Account     string   `json:"account"`
	User        string   `json:"user"`
	Role        string   `json:"role"`
	InboxPrefix string   `json:"inbox_prefix,omitempty"`
	Subjects    []string `json:"subjects,omitempty"`  // that it may publish to and streams store
	Consumers   []string `json:"consumers,omitempty"` // of a worker, as STREAM/CONSUMER
	Creds       string   `json:"creds"`               // a decorated credentials file
	CA          string   `json:"ca,omitempty"`        // PEM; empty without TLS
}

// User is who may connect, without anything secret.
type User struct {
	Account   string        `json:"account"`
	User      string        `json:"user"`
	Role      string        `json:"role"`
	PublicKey string        `json:"public_key"`
	State     string        `json:"state"` // active, revoked, handed out, own key
	Created   time.Time     `json:"created,omitzero"`
	Rotated   time.Time     `json:"rotated,omitzero"`
	Since     time.Time     `json:"since,omitzero"` // of a user that was revoked or handed out
	Retiring  []RetiringKey `json:"retiring,omitempty"`
}

// RetiringKey is an old key that is let in until a time.
type RetiringKey struct {
	PublicKey string    `json:"public_key"`
	Until     time.Time `json:"until"`
}

// CredsOp is a change to the credentials of a user.
type CredsOp string

// The changes.
const (
	CredsRotate CredsOp = "rotate"
	CredsRevoke CredsOp = "revoke"
	CredsForget CredsOp = "forget"
)

// Certificate is a certificate that the node serves or signs with.
type Certificate struct {
	Name        string    `json:"name"` // server or ca
	Subject     string    `json:"subject"`
	Names       []string  `json:"names,omitempty"`
	NotBefore   time.Time `json:"not_before"`
	NotAfter    time.Time `json:"not_after"`
	Fingerprint string    `json:"fingerprint_sha256"`
	Path        string    `json:"path"`
}

// Refusal is what a client was not allowed.
type Refusal struct {
	Account string    `json:"account,omitempty"`
	User    string    `json:"user,omitempty"`
	Reason  string    `json:"reason"`
	Count   uint64    `json:"count"`
	Last    time.Time `json:"last"`
	Example string    `json:"example,omitempty"`
}
