// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"encoding/json"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// compare returns the fields that are set and that the server has another value
// for, sorted by name.
func compare(k Kind, set, have map[string]any) []FieldChange {
	c := comparison{implied: rulesOf(k).implied}
	want := asStored(k, set)
	if k == KindConsumer {
		c.changes = compareFilters(want, have)
		delete(want, "filter_subject")
		delete(want, "filter_subjects")
	}
	c.object("", want, have)
	slices.SortFunc(c.changes, func(a, b FieldChange) int { return strings.Compare(a.Field, b.Field) })
	return c.changes
}

type comparison struct {
	implied map[string]string
	changes []FieldChange
}

// object compares the keys that are set; the server may have more.
func (c *comparison) object(path string, want, have map[string]any) {
	for key, w := range want {
		h, field := have[key], path+key
		if reserved(field) {
			continue
		}
		if implied, ok := c.implied[field]; ok && h == nil {
			h = implied
		}
		if wantObject, ok := w.(map[string]any); ok {
			haveObject, _ := h.(map[string]any)
			if len(wantObject) == 0 && path == "" && key != "metadata" && !isZero(haveObject) {
				// Nothing written inside means that there is to be none.
				c.changes = append(c.changes, FieldChange{Field: field, Have: h, Unset: true})
			}
			c.object(field+".", wantObject, haveObject)
			continue
		}
		if w != nil && !equal(field, w, h) {
			c.changes = append(c.changes, FieldChange{Field: field, Have: h, Want: w})
		}
	}
}

// reserved is true for metadata that the server and Holdfast itself write.
func reserved(field string) bool {
	key, ok := strings.CutPrefix(field, "metadata.")
	return ok && (strings.HasPrefix(key, "_nats.") || strings.HasPrefix(key, "holdfast."))
}

// equal compares two values of one field. Nothing, false, 0 and empty are the
// same: the server leaves such values out.
func equal(field string, want, have any) bool {
	if isZero(want) || isZero(have) {
		return isZero(want) && isZero(have)
	}
	if w, ok := want.(map[string]any); ok {
		h, ok := have.(map[string]any)
		return ok && sameKeys(w, h)
	}
	if w, ok := want.([]any); ok {
		h, ok := have.([]any)
		return ok && sameList(field, w, h)
	}
	if w, ok := number(want); ok {
		h, ok := number(have)
		return ok && w.Cmp(h) == 0
	}
	if isTime(field) {
		w, errW := time.Parse(time.RFC3339Nano, text(want))
		h, errH := time.Parse(time.RFC3339Nano, text(have))
		if errW == nil && errH == nil {
			return w.Equal(h)
		}
	}
	return want == have
}

// sameKeys compares objects inside a list strictly: a source with a filter is
// another source than one without.
func sameKeys(want, have map[string]any) bool {
	for _, key := range union(want, have) {
		if !equal(key, want[key], have[key]) {
			return false
		}
	}
	return true
}

func sameList(field string, want, have []any) bool {
	switch field {
	case "subjects", "sources", "priority_groups", "placement.tags":
		return sameElements(want, have)
	}
	return slices.EqualFunc(want, have, func(w, h any) bool { return equal("", w, h) })
}

// sameElements compares lists whose order means nothing to the server.
func sameElements(want, have []any) bool {
	if len(want) != len(have) {
		return false
	}
	left := slices.Clone(have)
	for _, w := range want {
		i := slices.IndexFunc(left, func(h any) bool { return equal("", w, h) })
		if i < 0 {
			return false
		}
		left = slices.Delete(left, i, i+1)
	}
	return true
}

func isTime(field string) bool {
	return strings.HasSuffix(field, "opt_start_time") || field == "pause_until"
}

func isZero(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case bool:
		return !v
	case []any:
		return len(v) == 0
	case map[string]any:
		return !slices.ContainsFunc(slices.Collect(maps.Values(v)), func(e any) bool { return !isZero(e) })
	}
	n, ok := number(v)
	return ok && n.Sign() == 0
}

// number returns a numeric value without losing digits: sequences and sizes
// need all 64 bits.
func number(v any) (*big.Rat, bool) {
	switch v := v.(type) {
	case json.Number:
		return new(big.Rat).SetString(v.String())
	case float64:
		return new(big.Rat).SetString(strconv.FormatFloat(v, 'g', -1, 64))
	case int:
		return new(big.Rat).SetInt64(int64(v)), true
	case int64:
		return new(big.Rat).SetInt64(v), true
	case uint64:
		return new(big.Rat).SetUint64(v), true
	}
	return nil, false
}

// position finds where a field stands: itself, else the nearest object around
// it, else the declaration.
func position(field string, fields map[string]diag.Pos, otherwise diag.Pos) diag.Pos {
	for {
		if at, ok := fields[field]; ok {
			return at
		}
		cut := strings.LastIndexByte(field, '.')
		if cut < 0 {
			return otherwise
		}
		field = field[:cut]
	}
}
