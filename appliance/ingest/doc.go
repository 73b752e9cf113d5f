// SPDX-License-Identifier: Apache-2.0

// Package ingest makes strict durability fast on one node. The server syncs the
// disk once per message of a stream; ingest stands between publishers and stream
// and hands over what waits as one atomic batch, which the server commits with a
// single sync, and answers each publisher with its own acknowledgement. It does
// the same for the acknowledgements of a work queue, each of which is a removal
// with a sync of its own.
//
// It owns the subjects that lead through it, one connection per account, and the
// decision what goes alone and what goes together. It knows nothing of
// configuration, identities or files: package appliance tells it what to carry.
// docs/adr/0007-group-commit.md has the design and what was measured.
package ingest
