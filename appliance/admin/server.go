// SPDX-License-Identifier: Apache-2.0

package admin

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// Node is what the admin API asks; the appliance is one.
type Node interface {
	Status(ctx context.Context) (Status, error)
	// Login returns credentials of a declared user, or of the system account
	// when system is set.
	Login(account, user string, system bool) (Login, error)
}

// Handler serves the admin API, for the admin socket only.
func Handler(n Node) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/status", func(w http.ResponseWriter, r *http.Request) {
		s, err := n.Status(r.Context())
		answer(w, s, err)
	})
	mux.HandleFunc("GET /v1/login", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		l, err := n.Login(q.Get("account"), q.Get("user"), q.Get("system") == "true")
		answer(w, l, err)
	})
	return mux
}

// failure is how an error crosses the socket.
type failure struct {
	Code diag.Code `json:"code,omitempty"`
	What string    `json:"what"`
	Fix  string    `json:"fix,omitempty"`
}

func answer(w http.ResponseWriter, v any, err error) {
	w.Header().Set("Content-Type", "application/json")
	if err != nil {
		w.WriteHeader(http.StatusUnprocessableEntity)
		v = failure{Code: diag.CodeOf(err), What: err.Error(), Fix: diag.Hint(err)}
	}
	// A client that went away is not the node's problem.
	_ = json.NewEncoder(w).Encode(v)
}
