// SPDX-License-Identifier: Apache-2.0

package acks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
)

// apiLimit bounds one request to the server.
const apiLimit = 10 * time.Second

// position is what a prototype asks of CONSUMER.INFO.
type position struct {
	Created   time.Time `json:"created"`
	Delivered struct {
		Stream uint64 `json:"stream_seq"`
	} `json:"delivered"`
	Floor struct {
		Stream uint64 `json:"stream_seq"`
	} `json:"ack_floor"`
	AckPending int    `json:"num_ack_pending"`
	Waiting    int    `json:"num_waiting"`
	Pending    uint64 `json:"num_pending"`
}

func askPosition(ctx context.Context, nc *nats.Conn) (position, error) {
	var p position
	err := ask(ctx, nc, "CONSUMER.INFO."+stream+"."+consumer, nil, &p)
	return p, err
}

// firstSeq is the sequence of the first message that the stream holds.
func firstSeq(ctx context.Context, nc *nats.Conn) (uint64, error) {
	var s struct {
		State struct {
			First uint64 `json:"first_seq"`
		} `json:"state"`
	}
	err := ask(ctx, nc, "STREAM.INFO."+stream, nil, &s)
	return s.State.First, err
}

// purge removes what lies before seq.
func purge(ctx context.Context, nc *nats.Conn, filter string, seq uint64) (purged uint64, err error) {
	req := struct {
		Filter string `json:"filter,omitempty"`
		Seq    uint64 `json:"seq"`
	}{filter, seq}
	var got struct {
		Purged uint64 `json:"purged"`
	}
	err = ask(ctx, nc, "STREAM.PURGE."+stream, req, &got)
	return got.Purged, err
}

func ask(ctx context.Context, nc *nats.Conn, api string, req, answer any) error {
	var body []byte
	if req != nil {
		var err error
		if body, err = json.Marshal(req); err != nil {
			return fmt.Errorf("encode request %s: %w", api, err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, apiLimit)
	defer cancel()
	m, err := nc.RequestWithContext(ctx, "$JS.API."+api, body)
	if err != nil {
		return fmt.Errorf("request %s: %w", api, err)
	}
	var refused struct {
		Error *struct {
			Description string `json:"description"`
		} `json:"error"`
	}
	if err := errors.Join(json.Unmarshal(m.Data, &refused), json.Unmarshal(m.Data, answer)); err != nil {
		return fmt.Errorf("read answer to %s: %w", api, err)
	}
	if refused.Error != nil {
		return fmt.Errorf("request %s: %s", api, refused.Error.Description)
	}
	return nil
}
