// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-mq/holdfast/appliance"
	"github.com/holdfast-mq/holdfast/appliance/admin"
	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/appliance/howto"
)

// starterDir is where the built-in starter keeps its data.
const starterDir = "holdfast-data"

// configFile is the file that a verb reads: the flag, or the variable.
func (g *globals) configFile() string { return cmp.Or(g.config, os.Getenv("HOLDFAST_CONFIG")) }

// load reads a configuration; "" is the built-in starter.
func (g *globals) load(file string) (*config.Config, diag.List) { return g.loadTexts(file, nil) }

// loadTexts reads a configuration from texts in place of the file and its overlays.
func (g *globals) loadTexts(file string, texts []config.Text) (*config.Config, diag.List) {
	o := config.Options{File: file, Texts: texts, Environ: os.Environ()}
	if g.dataDir != "" {
		o.Flags = append(o.Flags, config.Flag{Name: "--data-dir", Key: "node.data_dir", Text: g.dataDir})
	}
	return appliance.LoadConfig(o)
}

// client finds the node that a verb means: the one of --data-dir, of the
// named file, the starter's in this directory, or the installed one.
func (g *globals) client() (*admin.Client, error) {
	dir, err := g.nodeDir()
	if err != nil {
		return nil, err
	}
	c := admin.NewClient(appliance.FindSocket(dir))
	switch file := g.nodeFile(); {
	case file == config.PackagedFile():
		c.Absent = "`holdfast service status` says how the service is, and `" + howto.Here().Start() + "` starts it; name another node's file with --config, or its directory with --data-dir"
	case file == "" && g.dataDir == "" && installed():
		c.Absent = "start it with `holdfast run`; ./" + starterDir + " is another node's than the service, whose file is named with --config " + config.PackagedFile()
	}
	return c, nil
}

// nodeFile is the file of the node that a verb means; "" for a directory that was
// named, and for the starter.
func (g *globals) nodeFile() string {
	file := g.configFile()
	if file == "" && g.dataDir == "" && !exists(starterDir) && installed() {
		return config.PackagedFile()
	}
	return file
}

// installed reports whether there is, or should be, a packaged configuration: its
// directory may be closed to this user.
func installed() bool {
	_, err := os.Stat(config.PackagedFile())
	return err == nil || errors.Is(err, fs.ErrPermission) || serviceRegistered()
}

func (g *globals) nodeDir() (string, error) {
	file := g.nodeFile()
	switch {
	case g.dataDir != "":
		return g.dataDir, nil
	case file == "" && exists(starterDir):
		return starterDir, nil
	case file == config.PackagedFile() && closed():
		return "", diag.Fail(diag.CodeAdminRefused, errors.New("find the node: this user may not read "+filepath.Dir(config.PackagedFile())),
			howto.Here().Elevate())
	}
	cfg, problems := g.load(file)
	for _, p := range problems {
		// A mistake elsewhere in the file does not hide which node is meant. A file
		// that can't be read names none: taking the default directory instead would
		// act on the installed node.
		unread := p.Code == diag.CodeUnreadable || p.Code == diag.CodeSyntax || p.Path == "node" || p.Path == "node.data_dir"
		if p.Severity == diag.Error && unread {
			return "", diag.FailPermanently(p.Code, fmt.Errorf("find the node: %s", p), p.Fix)
		}
	}
	return cfg.Node.DataDir, nil
}

// closed reports whether the packaged configuration is not for this user to read: it may
// hold what others are not to know.
func closed() bool {
	_, file := os.ReadFile(config.PackagedFile())
	_, overlays := os.ReadDir(strings.TrimSuffix(config.PackagedFile(), ".yaml") + ".d")
	return errors.Is(file, fs.ErrPermission) || errors.Is(overlays, fs.ErrPermission)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
