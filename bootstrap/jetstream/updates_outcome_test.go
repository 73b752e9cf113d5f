// SPDX-License-Identifier: Apache-2.0

package jetstream_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// outcome is what a real server did with an update.
type outcome struct {
	refused  *refusal
	noEffect bool
	also     []string // fields the server changed besides
	dropped  uint64
	of       uint64
	later    uint64
	moved    bool // the consumer's position is another one
	noReturn string
	together string // with what it needs
}

func (s *subject) measure() outcome {
	s.Helper()
	s.create()
	before := s.info()
	have := before["config"].(map[string]any)
	o := outcome{of: s.messages()}
	want := laid(have, s.Want)
	if o.refused = s.update(want); o.refused != nil {
		o.together = s.together(want)
		return o
	}
	s.converged()
	switch {
	case s.API == "pause":
		// A cluster answers before it has done it.
		settle(s.T, func() error {
			if !s.effective(s.info()) {
				return errors.New("the pause is not there")
			}
			return nil
		})
	case s.Wait > 0:
		s.until(o.of - s.Wait)
	case s.Settle > 0:
		s.until(s.Settle)
	}
	after := s.info()
	o.dropped = o.of - min(o.of, s.messages())
	o.noEffect = !s.effective(after)
	o.also = s.sideEffects(have, after["config"].(map[string]any))
	o.moved = !reflect.DeepEqual(before["ack_floor"], after["ack_floor"])
	if o.dropped == 0 && !o.noEffect {
		o.later = s.lose(after["config"].(map[string]any))
	}
	if o.noEffect {
		o.together = s.together(want)
	}
	if o.dropped == 0 && o.later == 0 && !o.noEffect {
		o.noReturn = s.goBack(have)
	}
	return o
}

// together sends what was refused once more, with what it needs.
func (s *subject) together(want map[string]any) string {
	s.Helper()
	if s.With == nil {
		return ""
	}
	s.Want = maps.Clone(s.Want)
	maps.Copy(s.Want, s.With)
	if refused := s.update(laid(want, s.With)); refused != nil {
		return "refused " + refused.Error()
	}
	if !s.effective(s.info()) {
		return "without effect"
	}
	return "accepted"
}

// lose does what shows that an accepted update removes messages later.
func (s *subject) lose(config map[string]any) uint64 {
	s.Helper()
	before := s.messages()
	switch {
	case s.Then != nil:
		if err := s.update(laid(config, s.Then)); err != nil {
			s.Fatalf("then: %v", err)
		}
		if s.ThenWait > 0 {
			s.until(before - s.ThenWait)
		}
	case s.ThenAcked > 0:
		s.ack(s.ThenAcked, "interest")
	case s.ThenPublish > 0:
		for i := range s.ThenPublish {
			publishOne(s.T, s.nc, s.name, "t.a", fmt.Sprint("then", i), config)
		}
		before += uint64(s.ThenPublish)
	}
	return before - s.messages()
}

// goBack returns why the server does not take an update back, if so.
func (s *subject) goBack(have map[string]any) string {
	s.Helper()
	if refused := s.update(have); refused != nil {
		return refused.Error()
	}
	s.converged()
	left := func() []string {
		now, _ := s.info()["config"].(map[string]any)
		return differing(have, now)
	}
	if s.API == "pause" {
		settle(s.T, func() error {
			if d := left(); len(d) > 0 {
				return fmt.Errorf("still different: %s", d)
			}
			return nil
		})
	}
	if d := left(); len(d) > 0 {
		return strings.Join(d, ", ") + " stay"
	}
	return ""
}

// effective reports whether the server has what was asked for.
func (s *subject) effective(info map[string]any) bool {
	config, _ := info["config"].(map[string]any)
	for k, w := range s.Want {
		if k == "metadata" {
			if !reflect.DeepEqual(own(w), own(config[k])) {
				return false
			}
		} else if !within(w, config[k]) {
			return false
		}
	}
	if first := s.Want["first_seq"]; first != nil {
		// The only field of which the server keeps a value that it never uses.
		state, _ := info["state"].(map[string]any)
		return count(state["first_seq"]) >= count(first)
	}
	return true
}

// own is metadata without the server's notes.
func own(metadata any) map[string]any {
	out := map[string]any{}
	m, _ := metadata.(map[string]any)
	for k, v := range m {
		if !strings.HasPrefix(k, "_nats.") {
			out[k] = v
		}
	}
	return out
}

// within reports whether the server has at least what was asked for: it leaves
// out what is empty and adds to objects.
func within(want, have any) bool {
	if empty(want) {
		return empty(have)
	}
	if w, ok := want.(map[string]any); ok {
		h, _ := have.(map[string]any)
		for k, v := range w {
			if !within(v, h[k]) {
				return false
			}
		}
		return true
	}
	return reflect.DeepEqual(want, have)
}

func empty(v any) bool {
	if m, ok := v.(map[string]any); ok {
		return len(m) == 0
	}
	return v == nil || v == "" || v == false || v == json.Number("0") || v == "none" || v == "default"
}

func (s *subject) sideEffects(before, after map[string]any) []string {
	return slices.DeleteFunc(differing(before, after), func(k string) bool { _, asked := s.Want[k]; return asked })
}

// differing names the fields with another value, but for the server's own notes.
func differing(a, b map[string]any) []string {
	var names []string
	for k := range laid(a, b) {
		if k == "metadata" {
			if !reflect.DeepEqual(own(a[k]), own(b[k])) {
				names = append(names, k)
			}
		} else if !(empty(a[k]) && empty(b[k])) && !reflect.DeepEqual(a[k], b[k]) {
			names = append(names, k)
		}
	}
	slices.Sort(names)
	return names
}

func (o outcome) String() string {
	if o.refused != nil {
		text := "refused " + o.refused.Error()
		if o.together != "" {
			text += "; together " + o.together
		}
		return text
	}
	text := "accepted"
	if o.together != "" {
		return "accepted, without effect; together " + o.together
	}
	add := func(yes bool, format string, args ...any) {
		if yes {
			text += ", " + fmt.Sprintf(format, args...)
		}
	}
	add(o.noEffect, "without effect")
	add(o.dropped > 0, "dropped %d of %d", o.dropped, o.of)
	add(o.later > 0, "dropped %d later", o.later)
	add(o.moved, "position moved")
	add(len(o.also) > 0, "sets %s", strings.Join(o.also, ", "))
	add(o.noReturn != "", "no return: %s", o.noReturn)
	return text
}

// verdict is what classify has to agree with.
func (o outcome) verdict() string {
	switch {
	case o.refused != nil:
		return "refused"
	case o.noEffect:
		return "without effect"
	case o.dropped > 0 || o.later > 0:
		return "drops data"
	case o.noReturn != "":
		return "one-way"
	}
	return "in place"
}
