// SPDX-License-Identifier: Apache-2.0

package jetstream

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/nats-io/nats.go"
)

// ownStream is a stream that Holdfast keeps for itself, in an account that users don't
// see.
type ownStream struct {
	client   *Client
	account  string
	name     string
	replicas int
}

// ensure makes the stream, and gives an existing one its replicas and subjects: a cluster
// may have grown around it, and one whose configuration was damaged on the disk comes
// back as a plain stream.
func (s ownStream) ensure(ctx context.Context, config map[string]any) error {
	config["name"], config["num_replicas"] = s.name, s.replicas
	subjects, _ := config["subjects"].([]string)
	var have struct {
		Config struct {
			Replicas int      `json:"num_replicas"`
			Subjects []string `json:"subjects"`
		} `json:"config"`
	}
	err := s.client.request(ctx, s.account, "STREAM.INFO."+s.name, struct{}{}, &have)
	if err == nil && have.Config.Replicas == s.replicas && slices.Equal(have.Config.Subjects, subjects) {
		return nil
	}
	what, verb := "update", "UPDATE"
	if code(err) == codeStreamNotFound {
		what, verb = "create", "CREATE"
	} else if err != nil {
		return fmt.Errorf("read stream %q: %w", s.name, err)
	}
	var answer struct{}
	err = s.client.request(ctx, s.account, "STREAM."+verb+"."+s.name, config, &answer)
	if err != nil && code(err) != codeStreamNameInUse { // somebody else just made it
		return fmt.Errorf("%s stream %q: %w", what, s.name, err)
	}
	return nil
}

// expectLast is a header that lets a message in only when the last one of its
// subject has that sequence.
func expectLast(seq uint64) nats.Header {
	return nats.Header{nats.ExpectedLastSubjSeqHdr: {strconv.FormatUint(seq, 10)}}
}

// publish stores one message and returns its sequence.
func (s ownStream) publish(ctx context.Context, subject string, data []byte, header nats.Header) (uint64, error) {
	nc, err := s.client.conn(s.account)
	if err != nil {
		return 0, err
	}
	header.Set(nats.ExpectedStreamHdr, s.name)
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	for {
		msg, err := nc.RequestMsgWithContext(ctx, &nats.Msg{Subject: subject, Data: data, Header: header})
		var ack struct {
			Seq uint64 `json:"seq"`
		}
		if err == nil {
			err = decode(msg.Data, &ack)
		}
		// Neither stored anything: the other nodes hear of a stream a moment after it
		// was made, and what is under way is decided in a moment.
		again := errors.Is(err, nats.ErrNoResponders) || code(err) == codeLastSeqUndecided
		if !again || ctx.Err() != nil {
			return ack.Seq, err
		}
		catchUp(ctx)
	}
}

// last returns the last message of a subject, with the sequence 0 when there is
// none. Only the stream's leader answers, so that it is not an older one.
func (s ownStream) last(ctx context.Context, subject string) (seq uint64, data []byte, err error) {
	var got struct {
		Message struct {
			Seq  uint64 `json:"seq"`
			Data []byte `json:"data"`
		} `json:"message"`
	}
	err = s.client.request(ctx, s.account, "STREAM.MSG.GET."+s.name, map[string]any{"last_by_subj": subject}, &got)
	if c := code(err); c == codeStreamNotFound || c == codeNoMessage {
		return 0, nil, nil
	}
	return got.Message.Seq, got.Message.Data, err
}
