// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/appliance/service"
)

// What is called by other names elsewhere.
const (
	serviceName = "Holdfast"
	unitWord    = "runs"
	// otherDirHint takes the directory as its second argument.
	otherDirHint = "`icacls \"%[2]s\" /grant \"NT SERVICE\\Holdfast:(OI)(CI)F\"`, then `holdfast service restart`"
)

// serviceConfig is the configuration that the service names.
func serviceConfig() string { return service.InstalledConfig() }

func serviceRegistered() bool { return service.InstalledConfig() != "" }

// addServiceFlag adds what the service manager's command line says.
func addServiceFlag(cmd *cobra.Command, scm *bool) {
	cmd.Flags().BoolVar(scm, "scm", false, "run for the service manager")
	_ = cmd.Flags().MarkHidden("scm") // it is there
}

// runService runs the node as the service. What others print is in the log file.
func runService(std stdio, g *globals) error {
	node := func(drain, now context.Context, notify service.Notifier) int {
		log := service.OpenLog(service.LogDir())
		std.out, std.err = log.File, log.File
		err := checkServiceFiles(g.configFile())
		if err == nil {
			log.Tell("starting with "+g.configFile(), false)
			err = runNode(std, g, false, surroundings{drain, now, notify, func(_ io.Writer, level, format string) *slog.Logger {
				return log.Logger(level, format)
			}})
		}
		return ended(std, g, log, err)
	}
	return service.UnderManager(node, std.exit)
}

// ended says in the log, and where administrators look, how the service ended.
func ended(std stdio, g *globals, log *service.Log, err error) int {
	var said exitError
	switch {
	case err == nil:
		log.Tell("stopped", false)
	case errors.As(err, &said): // in full in the file
		_, problems := g.load(g.configFile())
		log.Tell(fmt.Sprintf("not started: the configuration is not valid: %s\r\n`holdfast check` shows all of it", firstError(problems)), true)
	default:
		g.printError(std, err)
		log.Tell(strings.TrimSpace("ended: "+err.Error()+"\r\n"+diag.Hint(err)), true)
	}
	_ = log.Close() // nobody is left to tell
	return codeOf(err)
}

// checkServiceFiles refuses a configuration that ordinary users can change.
func checkServiceFiles(file string) error {
	files := append(config.Files(file), filepath.Dir(file))
	if overlays := strings.TrimSuffix(file, ".yaml") + ".d"; exists(overlays) {
		files = append(files, overlays)
	}
	return service.CheckConfig(files)
}

// installerCmds are for the MSI, which runs them as the system.
func installerCmds() []*cobra.Command {
	return []*cobra.Command{
		{
			Use: "prepare", Hidden: true, Args: cobra.NoArgs, Short: "Make what the service needs [changes state]",
			RunE: func(*cobra.Command, []string) error {
				exe, err := os.Executable()
				if err != nil {
					return err
				}
				_, err = service.Prepare(service.Setup{Binary: exe, Config: config.PackagedFile(), Starter: config.Starter()})
				if err != nil {
					// The installer shows no output of what it runs.
					service.TellEvent(strings.TrimSpace("not installed: "+err.Error()+"\r\n"+diag.Hint(err)), true)
				}
				return err
			},
		},
		{
			Use: "farewell", Hidden: true, Args: cobra.NoArgs, Short: "Say what an uninstall keeps [changes state]",
			RunE: func(*cobra.Command, []string) error { return service.Farewell() },
		},
	}
}
