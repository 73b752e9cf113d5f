// SPDX-License-Identifier: Apache-2.0

package config

import (
	"reflect"
	"slices"
	"strings"
	"sync"
)

// Key is one entry of the key table. Path has * where a name stands:
// accounts.*.streams.*.max_bytes.
type Key struct {
	Path    string
	Kind    string // size, duration, list of subject, map of stream, object …
	Help    string
	Default string
	Example string // for the starter file, where there is no default
	Enum    []string
	Later   []string // values that belong to a later version; "*" is all
	Restart bool     // a change needs a restart
	Own     bool     // under streams and consumers: not a field of the JetStream API
}

// Keys returns the key table in the order of the file.
func Keys() []Key {
	var keys []Key
	var add func(path string, n *node)
	add = func(path string, n *node) {
		for _, name := range n.order {
			c := n.fields[name]
			k := c.key
			k.Path = path + name
			keys = append(keys, k)
			for c.elem != nil {
				if c.shape == shapeMap {
					k.Path += ".*"
				}
				c = c.elem
			}
			add(k.Path+".", c)
		}
	}
	add("", table())
	return keys
}

type shape int

const (
	shapeLeaf shape = iota
	shapeObject
	shapeMap  // names chosen by the user
	shapeList // replaced as a whole by an overlay or a variable
	shapeFree // whatever: a block of a later version
)

// node is one level of the key table.
type node struct {
	key    Key
	shape  shape
	typ    reflect.Type     // of the value, pointers removed
	fields map[string]*node // of an object
	order  []string
	elem   *node  // of a map or a list
	names  string // what the names of a map are names of: account, stream …
	called string // what an object is whose name is its key in a map: account, stream …
	path   bool   // a file path: relative to the file it stands in
	// present: an object that is switched on by being there, with nothing in it.
	present bool
}

// table is the key table as a tree, read once from the tags of Config.
var table = sync.OnceValue(func() *node {
	return nodeOf(reflect.TypeFor[Config]())
})

var valueType = reflect.TypeFor[value]()

func nodeOf(t reflect.Type) *node {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	n := &node{typ: t}
	switch {
	case reflect.PointerTo(t).Implements(valueType):
		n.key.Kind = reflect.New(t).Interface().(value).kind()
	case t.Kind() == reflect.Struct:
		n.shape, n.key.Kind = shapeObject, "object"
		n.addFields(t)
	case t.Kind() == reflect.Map && t.Elem().Kind() == reflect.Interface:
		n.shape, n.key.Kind = shapeFree, "object"
	case t.Kind() == reflect.Map:
		n.shape, n.elem = shapeMap, nodeOf(t.Elem())
		n.key.Kind = "map of " + n.elem.key.Kind
	case t.Kind() == reflect.Slice:
		n.shape, n.elem = shapeList, nodeOf(t.Elem())
		n.key.Kind = "list of " + n.elem.key.Kind
	case t.Kind() == reflect.Bool:
		n.key.Kind = "boolean"
	case t.Kind() == reflect.Uint64:
		n.key.Kind = "number"
	default:
		n.key.Kind = "text"
	}
	return n
}

func (n *node) addFields(t reflect.Type) {
	n.fields = map[string]*node{}
	for i := range t.NumField() {
		f := t.Field(i)
		name := f.Tag.Get("key")
		if name == "" {
			continue
		}
		c := nodeOf(f.Type)
		c.key.Help = f.Tag.Get("help")
		c.key.Default = platformDefault(f.Tag.Get("default"))
		c.key.Example = f.Tag.Get("example")
		c.key.Enum = split(f.Tag.Get("enum"))
		c.key.Later = split(f.Tag.Get("later"))
		c.key.Restart = f.Tag.Get("restart") == "yes"
		c.key.Own = f.Tag.Get("own") == "yes"
		c.names = f.Tag.Get("name")
		if c.shape == shapeMap {
			c.elem.called = c.names
		}
		c.present = c.shape == shapeObject && f.Type.Kind() == reflect.Pointer
		c.path = f.Tag.Get("path") == "yes"
		n.fields[name] = c
		n.order = append(n.order, name)
	}
}

func split(tag string) []string {
	if tag == "" {
		return nil
	}
	return strings.Split(tag, "|")
}

// isLater reports whether a value belongs to a later version.
func (k Key) isLater(raw string) bool {
	return slices.Contains(k.Later, "*") || slices.Contains(k.Later, raw)
}

// child returns the node below one path step.
func (n *node) child(step string) *node {
	switch n.shape {
	case shapeObject:
		return n.fields[step]
	case shapeMap, shapeList:
		return n.elem
	}
	return nil
}

// APIFields returns the JetStream API's names of the fields of a stream,
// consumer or one of their parts, as offered in the file.
func APIFields[T any]() []string {
	var names []string
	n := nodeOf(reflect.TypeFor[T]())
	for _, name := range n.order {
		if !n.fields[name].key.Own {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// APIValues returns the fields that are set, in the JetStream API's names and
// values: numbers as json.Number, durations in nanoseconds, sizes in bytes,
// no limit as -1. Keys of Holdfast's own are left out.
func APIValues(object any) map[string]any {
	v := reflect.ValueOf(object)
	out := map[string]any{}
	for i := range v.NumField() {
		// Not by nodeOf: it reads all that is below, for each of a thousand streams.
		tag := v.Type().Field(i).Tag
		name := tag.Get("key")
		if name == "" || tag.Get("own") == "yes" || v.Field(i).IsNil() {
			continue
		}
		out[name] = apiValue(v.Field(i))
	}
	return out
}
