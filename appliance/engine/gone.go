// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// missing is a block that should be there and is not. lost is nil where only its
// neighbours tell what was in it.
type missing struct {
	index int
	lost  []SeqRange
}

// missing finds blocks that are gone as a whole. Blocks also go because all of their
// messages were removed, so that one which is not there is damage only where that can't
// be: after a clean stop, or in the middle of a stream that loses messages at its
// beginning only, when nothing remembers that they were removed.
func (s *inspection) missing() []missing {
	var out []missing
	switch {
	case s.index != nil:
		for _, index := range slices.Sorted(maps.Keys(s.index)) {
			lost := s.index[index].lacks(nil)
			if s.has(index) || len(lost) == 0 || !s.clean && !s.unexplained(index, lost) {
				continue
			}
			out = append(out, missing{index, lost})
		}
	case s.clean:
		for _, index := range s.known.Blocks {
			if !s.has(index) {
				out = append(out, missing{index: index})
			}
		}
	default:
		for i := 1; i < len(s.blocks); i++ {
			if before := s.blocks[i-1]; s.blocks[i] > before+1 && s.onlyFromTheBeginning() {
				out = append(out, missing{index: before + 1})
			}
		}
	}
	return out
}

func (s *inspection) has(index int) bool {
	_, found := slices.BinarySearch(s.blocks, index)
	return found
}

// unexplained reports whether a block can only be gone through damage. The last message
// of a block that somebody removes is not remembered by itself.
func (s *inspection) unexplained(index int, lost []SeqRange) bool {
	first, last := lost[0].From, lost[len(lost)-1].To
	return len(s.blocks) > 0 && s.blocks[0] < index && last > first && s.onlyFromTheBeginning() && !s.remembered(SeqRange{first, last})
}

// remembered reports whether any block remembers a removal in a range.
func (s *inspection) remembered(in SeqRange) bool {
	return slices.ContainsFunc(s.blocks, func(index int) bool {
		r, err := s.read(index)
		return err != nil || r.cut || r.remembers(in)
	})
}

// onlyFromTheBeginning reports whether the server removes messages of the stream at its
// beginning only, when nobody asks for others.
func (s *inspection) onlyFromTheBeginning() bool {
	var c struct {
		Retention  string          `json:"retention"`
		PerSubject int64           `json:"max_msgs_per_subject"`
		Mirror     json.RawMessage `json:"mirror"`
		Sources    json.RawMessage `json:"sources"`
		Rollup     bool            `json:"allow_rollup_hdrs"`
		TTL        bool            `json:"allow_msg_ttl"`
		Schedules  bool            `json:"allow_msg_schedules"`
	}
	return s.configured(&c) && c.Retention == "limits" && c.PerSubject <= 0 &&
		c.Mirror == nil && c.Sources == nil && !c.Rollup && !c.TTL && !c.Schedules
}

// duplicateWindow is how old a message is at most that another may be a duplicate of.
func (s *inspection) duplicateWindow() time.Duration {
	var c struct {
		Window time.Duration `json:"duplicate_window"`
	}
	s.configured(&c)
	return c.Window
}

// configured reads the configuration of the stream; false where it can't be read.
func (s *inspection) configured(into any) bool {
	key, ok := s.metaKey()
	text, err := os.ReadFile(filepath.Join(s.dir, server.JetStreamMetaFile))
	if !ok || err != nil {
		return false
	}
	text, err = key.unbox(text)
	return err == nil && json.Unmarshal(text, into) == nil
}

// goneRepair is what is lost with a block that is gone and comes before the one at
// place i; false when that is nothing.
func (m *mending) goneRepair(g missing, i int) (repair, bool) {
	lost := g.lost
	if lost == nil {
		behind := m.firstBehind(i - 1)
		if i == len(m.blocks) && m.clean {
			behind = m.known.Last + 1
		}
		between := SeqRange{m.last + 1, behind - 1}
		if behind <= between.From || !m.clean && (between.From == between.To || m.remembered(between)) {
			return repair{}, false
		}
		lost = []SeqRange{between}
	}
	end := lost[len(lost)-1].To
	m.last, m.end = max(m.last, end), max(m.end, end)
	return repair{
		index: g.index, remind: g.lost == nil && !m.clean,
		damage: Damage{What: fmt.Sprintf("the file of block %d is gone", g.index), Lost: lost},
	}, true
}
