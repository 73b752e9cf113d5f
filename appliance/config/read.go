// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// maxFile bounds one configuration file: 10,000 streams fit many times over.
const maxFile = 64 << 20

// Text is a configuration file that was read. Positions name it, and relative paths
// in it start at the directory of its name.
type Text struct {
	Name string `json:"name"`
	Data []byte `json:"data"`
}

// ReadTexts reads the file and its overlays in the order in which they are merged,
// for Options.Texts. What can't be read is reported and left out. The text of no
// file is the built-in starter.
func ReadTexts(file string) ([]Text, diag.List) {
	if file == "" {
		return []Text{{starterName, starterText}}, nil
	}
	var l diag.List
	names, err := overlays(file)
	if err != nil {
		l = append(l, unreadable(overlayDir(file), err))
	}
	texts := []Text{} // not nil, which would mean the disk
	for _, name := range append([]string{file}, names...) {
		data, err := readFile(name)
		if err != nil {
			l = append(l, unreadable(name, err))
			continue
		}
		texts = append(texts, Text{name, data})
	}
	return texts, l
}

func unreadable(file string, err error) diag.Problem {
	p := diag.Problem{Code: diag.CodeUnreadable, Pos: diag.Pos{File: file}, What: err.Error(), Fix: "correct the path, or its permissions"}
	var pe *fs.PathError
	if errors.As(err, &pe) {
		p.What = pe.Err.Error()
	}
	if errors.Is(err, fs.ErrNotExist) {
		p.Fix = fmt.Sprintf("write a starter with `holdfast init %s`, or name the file with --config", file)
	}
	return p
}

func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("read %s: larger than 64 MiB", name)
	}
	return data, err
}

// overlayDir is where the overlays of a file are: holdfast.d beside holdfast.yaml.
func overlayDir(file string) string {
	return strings.TrimSuffix(file, filepath.Ext(file)) + ".d"
}

// overlays lists the *.yaml and *.yml files of the overlay directory in name order.
func overlays(file string) ([]string, error) {
	entries, err := os.ReadDir(overlayDir(file))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var names []string
	for _, e := range entries {
		ext := filepath.Ext(e.Name())
		if !e.IsDir() && (ext == ".yaml" || ext == ".yml") && !strings.HasPrefix(e.Name(), ".") {
			names = append(names, filepath.Join(overlayDir(file), e.Name()))
		}
	}
	return names, err
}

// Files lists the file and its overlays, as far as they can be listed, in the order
// in which they are merged.
func Files(file string) []string {
	names, err := overlays(file)
	if err != nil {
		names = nil // said by Load
	}
	return append([]string{file}, names...)
}
