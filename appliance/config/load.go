// SPDX-License-Identifier: Apache-2.0

package config

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/go-viper/mapstructure/v2"
	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/v2"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// Options say where the configuration comes from. Later sources win:
// defaults < File < overlays in FILE's .d directory < Environ < Flags.
type Options struct {
	File string // empty: the built-in starter
	// Texts, if not nil, are the file and its overlays in the order of merging, in
	// place of those on disk: File is not read then.
	Texts []Text
	// Environ is the environment, as os.Environ gives it.
	Environ []string
	// Flags are keys set on the command line, by their dotted path.
	Flags []Flag
	// AllowNATSKey says whether a key of the nats block may be set, and if not
	// why; the engine owns that list.
	AllowNATSKey func(name string) (reason string, ok bool)
	// Volume returns the size of the volume that holds the data directory. Nil:
	// byte limits are not compared with it.
	Volume func(dir string) (total int64, err error)
}

// Flag is a key set on the command line.
type Flag struct {
	Name string // --data-dir
	Key  string // node.data_dir
	Text string
}

// Load reads and checks everything and returns all problems at once. The
// Config is never nil; with errors in the list it holds what could be read,
// and must not be run.
func Load(o Options) (*Config, diag.List) {
	var l diag.List
	k := koanf.New(delimiter)
	org := newOrigins()
	load := func(s *source, base string) {
		w := walker{problems: &l, refused: org.refused, base: base, pos: s.valuePos, keyPos: s.keyPos, keysPos: s.keysPos}
		merge(k, w.object(table(), s.values, nil))
		org.add(s)
	}

	merge(k, defaults())
	for _, f := range files(o, org, &l) {
		load(f.source, filepath.Dir(f.name))
	}
	cwd, err := os.Getwd()
	if err != nil {
		cwd = "."
	}
	load(environment(o.Environ, k.Raw(), &l), cwd)
	load(flags(o.Flags), cwd)

	cfg := &Config{origin: org}
	if err := decode(k, cfg); err != nil {
		l = append(l, diag.Problem{Code: diag.CodeType, Pos: diag.Pos{File: o.File}, What: err.Error(), Fix: "correct the value; please report this, for the key should have been named"})
	}
	check(cfg, o, &l)
	l.Sort()
	return cfg, l
}

func (s *source) valuePos(p path) diag.Pos { return nearestPos(s.at, p) }
func (s *source) keyPos(p path) diag.Pos   { return nearestPos(s.keyAt, p) }

func (s *source) keysPos(p path) diag.Pos {
	if pos, ok := s.keysAt[p.id()]; ok {
		return pos
	}
	return s.valuePos(p) // in a list, or from a variable
}

func nearestPos(at map[string]diag.Pos, p path) diag.Pos {
	for ; len(p) > 0; p = p[:len(p)-1] {
		if pos, ok := at[p.id()]; ok {
			return pos
		}
	}
	return diag.Pos{}
}

// file is a file that was read.
type file struct {
	name string
	*source
}

// files parses the file and its overlays in the order in which they are merged.
func files(o Options, org *origins, l *diag.List) []file {
	texts := o.Texts
	if texts == nil {
		var problems diag.List
		texts, problems = ReadTexts(o.File)
		*l = append(*l, problems...)
	}
	var out []file
	for _, t := range texts {
		org.texts[t.Name] = t.Data
		if t.Name != starterName {
			org.files = append(org.files, t.Name)
		}
		if s := parse(t.Data, inFile(t.Name, t.Data), nil, l); s != nil {
			out = append(out, file{t.Name, s})
		}
	}
	return out
}

// flags makes a source of the keys set on the command line.
func flags(set []Flag) *source {
	s := newSource(nil)
	for _, f := range set {
		p := path(strings.Split(f.Key, "."))
		n := table()
		for _, step := range p {
			n = n.child(step)
		}
		s.set(p, diag.Pos{Origin: f.Name}, fromText(n, f.Text))
	}
	return s
}

// defaults are the values of the key table, outside of what users name.
func defaults() map[string]any {
	m := map[string]any{}
	var add func(n *node, p path)
	add = func(n *node, p path) {
		for _, name := range n.order {
			c := n.fields[name]
			if c.key.Later != nil && c.shape == shapeObject {
				continue // absent means off
			}
			if c.key.Default != "" {
				put(m, p.with(name), fromText(c, c.key.Default))
			}
			if c.shape == shapeObject {
				add(c, p.with(name))
			}
		}
	}
	add(table(), nil)
	return m
}

func merge(k *koanf.Koanf, values map[string]any) {
	// A confmap without a delimiter is taken as it is and can't fail.
	_ = k.Load(confmap.Provider(values, ""), nil)
}

func decode(k *koanf.Koanf, cfg *Config) error {
	return k.UnmarshalWithConf("", cfg, koanf.UnmarshalConf{
		Tag: "key",
		DecoderConfig: &mapstructure.DecoderConfig{
			DecodeHook:  mapstructure.DecodeHookFuncType(decodeValue),
			Result:      cfg,
			ErrorUnused: true,
		},
	})
}

// decodeValue lets the leaf types read themselves.
func decodeValue(_, to reflect.Type, raw any) (any, error) {
	p := reflect.New(to)
	v, ok := p.Interface().(value)
	if !ok {
		return raw, nil
	}
	if err := v.set(raw); err != nil {
		return nil, err
	}
	return p.Elem().Interface(), nil
}

// At returns where a key was set: the place of the value, else of what holds it.
func (c *Config) At(steps ...string) diag.Pos { return nearestPos(c.origin.at, steps) }

// KeyAt returns where a key was first written: for a stream or an account, the
// place of its name.
func (c *Config) KeyAt(steps ...string) diag.Pos { return nearestPos(c.origin.keyAt, steps) }

// isSet reports whether any source sets the key, with a value that fits or not.
func (c *Config) isSet(steps ...string) bool {
	_, ok := c.origin.at[path(steps).id()]
	return ok
}

// Files lists the files that were read, in the order of merging. It is empty
// for the built-in starter.
func (c *Config) Files() []string { return slices.Clone(c.origin.files) }

// Source returns the text of a file that was read, for excerpts in errors.
func (c *Config) Source(file string) []byte { return c.origin.texts[file] }
