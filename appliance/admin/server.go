// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// Node is what the admin API asks about the node; the appliance is one.
type Node interface {
	Status(ctx context.Context) (Status, error)
	// CA returns the certificate that clients must trust, in PEM; "" without TLS.
	CA() string
}

// Credentials is what the admin API asks about users; the appliance is one.
type Credentials interface {
	Users() []User
	// Login returns credentials of a declared user; without a user, of an
	// administrator of the account; or of the system account when system is set.
	Login(account, user string, system bool) (Login, error)
	// ChangeUser changes credentials; overlap is for CredsRotate.
	ChangeUser(ctx context.Context, op CredsOp, account, user string, overlap time.Duration) error
	// ExportIdentity returns all keys and tokens, as a file to restore from.
	ExportIdentity() ([]byte, error)
}

// Handler serves the admin API, for the admin socket only.
func Handler(n Node, c Credentials, p Planner, b Bencher, v Verifier) http.Handler {
	mux := http.NewServeMux()
	handlePlans(mux, p)
	handleBench(mux, b)
	handleVerify(mux, v)
	mux.HandleFunc("GET /v1/status", func(w http.ResponseWriter, r *http.Request) {
		s, err := n.Status(r.Context())
		answer(w, s, err)
	})
	mux.HandleFunc("GET /v1/ca", func(w http.ResponseWriter, _ *http.Request) { answer(w, n.CA(), nil) })
	mux.HandleFunc("GET /v1/users", func(w http.ResponseWriter, _ *http.Request) { answer(w, c.Users(), nil) })
	mux.HandleFunc("GET /v1/login", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		l, err := c.Login(q.Get("account"), q.Get("user"), q.Get("system") == "true")
		answer(w, l, err)
	})
	mux.HandleFunc("GET /v1/identity", func(w http.ResponseWriter, _ *http.Request) {
		data, err := c.ExportIdentity()
		answer(w, data, err)
	})
	mux.HandleFunc("POST /v1/users/{account}/{user}/{op}", func(w http.ResponseWriter, r *http.Request) {
		overlap, err := time.ParseDuration(cmp.Or(r.URL.Query().Get("overlap"), "0s"))
		if err == nil {
			err = c.ChangeUser(r.Context(), CredsOp(r.PathValue("op")), r.PathValue("account"), r.PathValue("user"), overlap)
		}
		answer(w, struct{}{}, err)
	})
	return mux
}

// failure is how an error crosses the socket.
type failure struct {
	Code diag.Code `json:"code,omitempty"`
	What string    `json:"what"`
	Fix  string    `json:"fix,omitempty"`
	// Permanent is true when no retry helps.
	Permanent bool `json:"permanent,omitempty"`
}

func failed(err error) failure {
	return failure{Code: diag.CodeOf(err), What: err.Error(), Fix: diag.Hint(err), Permanent: diag.Permanent(err)}
}

// error is the failure on the asking side.
func (f failure) error() error {
	if f.Permanent {
		return diag.FailPermanently(f.Code, errors.New(f.What), f.Fix)
	}
	return diag.Fail(f.Code, errors.New(f.What), f.Fix)
}

func answer(w http.ResponseWriter, v any, err error) {
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		w.WriteHeader(http.StatusUnprocessableEntity)
		v = failed(err)
	}
	// A client that went away is not the node's problem.
	_ = json.NewEncoder(w).Encode(v)
}
