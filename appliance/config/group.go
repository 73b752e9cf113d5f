// SPDX-License-Identifier: Apache-2.0

package config

import (
	"slices"
	"strings"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// Values of group_commit.
const (
	GroupAuto = "auto"
	GroupOn   = "on"
	GroupOff  = "off"
)

// GroupCommit returns how the messages of a declared stream are committed: GroupOff
// also where it is not possible or means nothing. why is the reason of GroupOff.
func (c *Config) GroupCommit(account, name string) (mode, why string) {
	s := c.Accounts[account].Streams[name]
	if key, why := s.notGrouped(c, name); key != "" {
		return GroupOff, key + ": " + why
	}
	if mode = or(s.GroupCommit, GroupAuto); mode == GroupOff {
		return mode, "group_commit: off in the file"
	}
	return mode, ""
}

// Captured returns the subjects that a stream takes from clients: without any its
// name, unless it is a copy of others.
func (s Stream) Captured(name string) []Subject {
	if len(s.Subjects) == 0 && !s.IsMirror() && len(s.Sources) == 0 {
		return []Subject{Subject(name)}
	}
	return s.Subjects
}

// notGrouped returns the key because of which messages of a stream go alone, and why;
// "" when they can go together.
func (s Stream) notGrouped(c *Config, name string) (key, why string) {
	copied := c.copied(s)
	for _, r := range []struct {
		applies  bool
		key, why string
	}{
		{c.Storage.Durability == "interval", "storage.durability", "without an fsync before each acknowledgement there is nothing to share"},
		{c.Cluster != nil && !copied, "num_replicas", "one copy in a cluster is flushed for each message"},
		{or(s.Storage, "file") != "file", "storage", "memory has no fsync"},
		{len(s.Captured(name)) == 0, "subjects", "the stream takes nothing from clients"},
		{is(s.NoAck), "no_ack", "the server says of no message that it is stored"},
		{is(s.Sealed), "sealed", "nothing can be added"},
		{or(s.PersistMode, "") == "async", "persist_mode", "messages are acknowledged before they are written"},
		{!copied && isNot(s.AllowAtomic), "allow_atomic", "messages are handed over as atomic batches"},
		{!copied && is(s.AllowMsgCounter), "allow_msg_counter", "each message changes the one before it"},
		{!copied && s.written().Republish != nil, "republish", "what is republished would show how messages were stored"},
		{slices.ContainsFunc(s.Captured(name), internal), "subjects", "subjects that begin with $ belong to a protocol of their own"},
	} {
		if r.applies {
			return r.key, r.why
		}
	}
	return "", ""
}

// Copied reports whether a declared stream has copies on other nodes. Its messages stay as
// they are when they are committed together, so that less is in the way of it.
func (c *Config) Copied(account, name string) bool {
	return c.copied(c.Accounts[account].Streams[name])
}

func (c *Config) copied(s Stream) bool {
	n := or(s.NumReplicas, 0)
	return c.Cluster != nil && n != 1
}

func internal(s Subject) bool { return strings.HasPrefix(string(s), "$") }

// grouped: group commit that is asked for and not possible.
func (s stream) grouped() {
	key, why := s.notGrouped(s.c.cfg, s.name)
	if or(s.GroupCommit, "") != GroupOn || key == "" {
		return
	}
	s.errors(rule{true, diag.CodeConflict, "group_commit", "not possible because of " + key + ": " + why, "remove group_commit, or write auto"})
}

// GroupedConsumer returns the consumer of a work queue whose acknowledgements can be
// committed together; "" for none. Each message must be its, or a prefix of what it has
// acknowledged would not be a prefix of the stream.
func (c *Config) GroupedConsumer(account, name string) string {
	s := c.Accounts[account].Streams[name]
	if or(s.Retention, "") != "workqueue" || len(s.Consumers) != 1 || is(s.DenyPurge) || is(s.AllowMsgSchedules) {
		return ""
	}
	for name, x := range s.Consumers {
		if or(x.AckPolicy, "explicit") == "explicit" && x.FilterSubject == nil && len(x.FilterSubjects) == 0 && x.DeliverSubject == nil &&
			x.SampleFreq == nil && len(x.PriorityGroups) == 0 {
			return name
		}
	}
	return ""
}
