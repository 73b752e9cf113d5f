// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"os"

	"github.com/holdfast-mq/holdfast/appliance"
	"github.com/holdfast-mq/holdfast/appliance/admin"
	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/appliance/diag"
)

const (
	// packagedConfig is the file of an installed package.
	packagedConfig = "/etc/holdfast/holdfast.yaml"
	// starterDir is where the built-in starter keeps its data.
	starterDir = "holdfast-data"
)

// configFile is the file that a verb reads: the flag, or the variable.
func (g *globals) configFile() string { return cmp.Or(g.config, os.Getenv("HOLDFAST_CONFIG")) }

// load reads a configuration; "" is the built-in starter.
func (g *globals) load(file string) (*config.Config, diag.List) {
	o := config.Options{File: file, Environ: os.Environ()}
	if g.dataDir != "" {
		o.Flags = append(o.Flags, config.Flag{Name: "--data-dir", Key: "node.data_dir", Text: g.dataDir})
	}
	return appliance.LoadConfig(o)
}

// client finds the node that a verb means: the one of --data-dir, of the
// named file, the starter's in this directory, or the installed one.
func (g *globals) client() *admin.Client {
	return admin.NewClient(appliance.FindSocket(g.nodeDir()))
}

func (g *globals) nodeDir() string {
	file := g.configFile()
	switch {
	case g.dataDir != "":
		return g.dataDir
	case file == "" && exists(starterDir):
		return starterDir
	case file == "" && exists(packagedConfig):
		file = packagedConfig
	}
	// A file with a mistake in it still says where its node is.
	cfg, _ := g.load(file)
	return cfg.Node.DataDir
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
