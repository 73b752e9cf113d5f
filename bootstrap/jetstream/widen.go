// SPDX-License-Identifier: Apache-2.0

package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/bootstrap"
)

// A stream with retention interest is not simply given more copies. A server that gets
// one has the stream before its consumers, and meanwhile does not keep what nobody seems
// to wait for (nats-server 2.15.3, stream.go: processJetStreamMsg and ackMsg). The copy
// lacks these messages, and when it leads nobody gets them any more. So the stream keeps
// everything until all of its copies and those of its consumers are there:
//
//  1. retention limits, which is in force at once, and a mark;
//  2. the copies;
//  3. retention interest, which the server puts off by itself until both are there, and
//     then removes what every consumer has acknowledged;
//  4. the mark goes.
//
// A stop in between leaves the mark, and everything in the stream.

const (
	// widenLimit bounds how long the copies are waited for. They are made without that.
	widenLimit = time.Minute
	widenEvery = 250 * time.Millisecond
)

// widened is what a stream that gets copies is to be at the end, where that is not what
// it is meanwhile. It is the value of the mark.
type widened struct {
	Copies     int64 `json:"copies"`
	Discard    any   `json:"discard"`
	PerSubject any   `json:"discard_new_per_subject"`
}

// widens reports whether a change gives a stream copies in a way that takes care.
func widens(have, set map[string]any) bool {
	if to, ok := set["retention"]; ok && to != "interest" {
		return false // it keeps everything from then on
	}
	return have["retention"] == "interest" && copies(set) > copies(have)
}

// copies reads num_replicas, of the file or of the server.
func copies(config map[string]any) int64 {
	n, _ := strconv.ParseInt(fmt.Sprint(config["num_replicas"]), 10, 64) // 0 where it is not set
	return n
}

// widen gives a stream with retention interest more copies, or goes on with that.
func (c *Client) widen(ctx context.Context, o object, have map[string]any, wanted int64, wait time.Duration, order Order) error {
	var err error
	end := widened{Copies: wanted, Discard: have["discard"], PerSubject: have["discard_new_per_subject"]}
	if text, ok := mark(have, bootstrap.MetaWidened); ok {
		end = widened{}
		if err := unmarshal([]byte(text), &end); err != nil {
			return fmt.Errorf("read metadata %q: %w", bootstrap.MetaWidened, err)
		}
	} else if have, err = c.keepAll(ctx, o, have, end, order); err != nil {
		return err
	}
	if copies(have) != end.Copies {
		more := maps.Clone(have)
		more["num_replicas"] = end.Copies
		if err := c.reconfigure(ctx, o.account, more); err != nil {
			if errors.As(err, new(*apiError)) { // else nobody knows what came of it
				err = errors.Join(err, c.reconfigure(ctx, o.account, end.of(have)))
			}
			return err
		}
		order.step("add copies of " + o.String())
		have = more
	}
	if have["retention"] != "interest" {
		have = maps.Clone(have)
		have["retention"] = "interest"
		if err := c.reconfigure(ctx, o.account, have); err != nil {
			return err
		}
		order.step("let go of what is acknowledged in " + o.String())
	}
	if err := c.waitCopies(ctx, o, wait); err != nil {
		return err
	}
	if err := c.reconfigure(ctx, o.account, end.of(have)); err != nil {
		return err
	}
	order.step("end the widening of " + o.String())
	return nil
}

// keepAll has the stream keep what is acknowledged. Where it would make room for new
// messages by removing old ones it refuses the new ones meanwhile: the old ones may be
// such that somebody waits for.
func (c *Client) keepAll(ctx context.Context, o object, have map[string]any, end widened, order Order) (map[string]any, error) {
	text, err := json.Marshal(end)
	if err != nil {
		return nil, err
	}
	all := withMark(have, bootstrap.MetaWidened, string(text))
	all["retention"], all["discard"] = "limits", "new"
	if number(have["max_msgs_per_subject"]) > 0 {
		all["discard_new_per_subject"] = true
	}
	if err := c.reconfigure(ctx, o.account, all); err != nil {
		return nil, err
	}
	order.step("keep everything in " + o.String())
	return all, nil
}

// of is what the stream is at the end.
func (w widened) of(config map[string]any) map[string]any {
	out := withMark(config, bootstrap.MetaWidened, "")
	out["retention"], out["discard"] = "interest", w.Discard
	if delete(out, "discard_new_per_subject"); w.PerSubject != nil {
		out["discard_new_per_subject"] = w.PerSubject
	}
	return out
}

// errWidening is no fault.
var errWidening = diag.Fail(diag.CodeUpdate, errors.New("its copies are being made, and it keeps what is acknowledged until they are there"),
	"nothing is to be done while all nodes are up: it ends by itself; `holdfast cluster status` shows the copies")

// waitCopies waits until the server has done what it was asked for.
func (c *Client) waitCopies(ctx context.Context, o object, wait time.Duration) error {
	limit := time.NewTimer(wait)
	defer limit.Stop()
	tick := time.NewTicker(widenEvery)
	defer tick.Stop()
	for {
		var info struct {
			Cluster struct {
				Leader  string          `json:"leader"`
				Desired json.RawMessage `json:"desired"`
			} `json:"cluster"`
		}
		err := c.request(ctx, o.account, o.subject("INFO"), struct{}{}, &info)
		if err == nil && info.Cluster.Leader != "" && len(info.Cluster.Desired) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-limit.C:
			return errWidening
		case <-tick.C:
		}
	}
}
