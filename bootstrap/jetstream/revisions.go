// SPDX-License-Identifier: Apache-2.0

package jetstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/bootstrap"
)

// The stream of revisions and its subjects. A revision's ID is the sequence of the
// record of its beginning.
const (
	revisionStream = "REVISIONS"
	subjectAll     = "revisions.>"
	subjectBegun   = "revisions.begun"
	subjectDone    = "revisions.done."    // and the ID
	subjectObjects = "revisions.objects." // and the ID
	// maxRevisionMessages bounds the stream: a revision has two records, and the
	// latest ones their objects.
	maxRevisionMessages = 1000
)

const (
	codeStreamNotFound  = 10059
	codeStreamNameInUse = 10058
	codeWrongLastSeq    = 10071
	// codeLastSeqUndecided means that another message of the subject is under way.
	codeLastSeqUndecided = 10164

	hintRevisions = "it is tried again by itself; if it stays, the log of the node has what the server says, and `holdfast status` whether JetStream runs"
)

// OvertakenError means that another revision was begun since the one before it
// was read: what was planned then may be wrong now.
type OvertakenError struct {
	// Latest is what was begun in the meantime, without its objects. Its ID is 0
	// when all revisions were removed.
	Latest bootstrap.Revision
}

func (e *OvertakenError) Error() string {
	if e.Latest.ID == 0 {
		return "all revisions were removed in the meantime"
	}
	return fmt.Sprintf("revision %d was begun in the meantime, by %q on node %q", e.Latest.ID, e.Latest.By, e.Latest.Node)
}

// Revisions is the record of what was applied, by whom and when, in a stream that
// users don't see.
type Revisions struct{ ownStream }

// Revisions returns the record that is kept in the account, with that many
// replicas.
func (c *Client) Revisions(account string, replicas int) Revisions {
	return Revisions{ownStream{client: c, account: account, name: revisionStream, replicas: replicas}}
}

// Begin records that a revision is about to be applied and returns its ID. It
// returns an OvertakenError when the latest revision is not rev.After any more.
// After another error nothing may be applied; it may have been recorded all the
// same, and Begin with the very same rev, its Time above all, then goes on with
// that. What only Finish records is not looked at, nor is rev.ID.
func (r Revisions) Begin(ctx context.Context, rev bootstrap.Revision) (uint64, error) {
	id, err := r.begin(ctx, rev)
	if err == nil {
		return id, nil
	}
	err = fmt.Errorf("record the beginning of a revision: %w", err)
	if _, ok := errors.AsType[*OvertakenError](err); ok {
		return 0, diag.Fail(diag.CodePlanMoved, err, "look at what there is to do now with `holdfast plan`, and apply again")
	}
	return 0, diag.Fail(diag.CodeUpdate, err, hintRevisions)
}

func (r Revisions) begin(ctx context.Context, rev bootstrap.Revision) (uint64, error) {
	if err := r.ensure(ctx); err != nil {
		return 0, err
	}
	objects := rev.Objects
	rev.ID, rev.Objects, rev.Done, rev.Partial, rev.Unchanged = 0, nil, false, false, false
	record, err := json.Marshal(rev)
	if err != nil {
		return 0, fmt.Errorf("encode: %w", err)
	}
	id, err := r.publish(ctx, subjectBegun, record, expectLast(rev.After))
	if code(err) == codeWrongLastSeq {
		id, err = r.faster(ctx, record)
	}
	if err != nil {
		return 0, err
	}
	_, err = r.putObjects(ctx, id, objects)
	return id, err
}

// faster returns the ID of the latest beginning when that is the same record, for
// whose acknowledgement an earlier call waited in vain, and else who began it.
func (r Revisions) faster(ctx context.Context, record []byte) (uint64, error) {
	seq, data, err := r.last(ctx, subjectBegun)
	if err != nil {
		return 0, err
	}
	switch {
	case seq == 0:
		return 0, &OvertakenError{}
	case bytes.Equal(data, record):
		return seq, nil
	}
	latest, err := decodeBegun(seq, data)
	if err != nil {
		return 0, err
	}
	return 0, &OvertakenError{Latest: latest}
}

// Resume records the objects of a revision whose beginning was cut short before that.
func (r Revisions) Resume(ctx context.Context, rev bootstrap.Revision) error {
	if _, err := r.putObjects(ctx, rev.ID, rev.Objects); err != nil {
		return diag.Fail(diag.CodeUpdate, fmt.Errorf("go on with revision %d: %w", rev.ID, err), hintRevisions)
	}
	return nil
}

// revisionEnd is the record of a revision's end.
type revisionEnd struct {
	Summary   string `json:"summary,omitempty"`
	Partial   bool   `json:"partial,omitempty"`
	Unchanged bool   `json:"unchanged,omitempty"`
}

// Finish records that the revision rev.ID was applied to its end, with its
// Summary, whether it was done in part or left all unchanged, and with the Objects that
// are now as declared in place of those it began with. Of a revision that was finished
// in part it records how far it is now. rev.End is that of the record in whose place
// this one comes; when there is another one by now, two nodes were at it, and it counts
// as done. What older revisions declared is forgotten then.
func (r Revisions) Finish(ctx context.Context, rev bootstrap.Revision) error {
	if err := r.finish(ctx, rev); err != nil {
		return diag.Fail(diag.CodeUpdate, fmt.Errorf("record the end of revision %d: %w", rev.ID, err), hintRevisions)
	}
	return nil
}

func (r Revisions) finish(ctx context.Context, rev bootstrap.Revision) error {
	if rev.ID == 0 {
		return errors.New("it was not begun")
	}
	// Before the record of the end, which is what makes them count.
	first, err := r.putObjects(ctx, rev.ID, rev.Objects)
	if err != nil {
		return err
	}
	end := revisionEnd{Summary: rev.Summary, Partial: rev.Partial, Unchanged: rev.Unchanged}
	err = r.putEnd(ctx, rev.ID, rev.End, end)
	if code(err) == codeWrongLastSeq {
		err = r.settleEnd(ctx, rev.ID, end)
	}
	if err != nil {
		return err
	}
	return r.forgetObjects(ctx, rev.ID, first)
}

func endOf(id uint64) string { return subjectDone + strconv.FormatUint(id, 10) }

func (r Revisions) putEnd(ctx context.Context, id, last uint64, end revisionEnd) error {
	record, err := json.Marshal(end)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	_, err = r.publish(ctx, endOf(id), record, expectLast(last))
	return err
}

// settleEnd records an end where another record is than was known. When neither is
// this one, which was recorded without an answer, nor one that is stricter, nobody knows
// what both did together, and it must not look as if it were nothing.
func (r Revisions) settleEnd(ctx context.Context, id uint64, end revisionEnd) error {
	seq, data, err := r.last(ctx, endOf(id))
	if err != nil {
		return err
	}
	var other revisionEnd
	if err := json.Unmarshal(data, &other); err != nil {
		return fmt.Errorf("decode the end in message %d: %w", seq, err)
	}
	if other == end || !other.Partial && !other.Unchanged {
		return nil
	}
	return r.putEnd(ctx, id, seq, revisionEnd{Summary: end.Summary})
}

// ensure makes the stream, or makes it what it should be.
func (r Revisions) ensure(ctx context.Context) error {
	return r.ownStream.ensure(ctx, map[string]any{
		"subjects":    []string{subjectAll},
		"description": "what was applied to this node, by whom and when",
		"storage":     "file", "retention": "limits", "discard": "old", "max_msgs": maxRevisionMessages, "allow_direct": true,
	})
}
