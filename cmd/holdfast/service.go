// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/holdfast-mq/holdfast/appliance"
	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/appliance/service"
)

func newServiceCmd(std stdio, g *globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "service",
		Short: "Install, remove, start and stop the service [changes state]",
		Long: "The service is the node that starts at boot, under systemd or the service manager of Windows.\n" +
			"The packages install it; with a tarball or zip `holdfast service install` ends with the same.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	cmd.AddCommand(
		newServiceInstallCmd(std, g), newServiceUninstallCmd(std, g),
		newServiceOrderCmd(std, g, "start", "Start the service and wait until it is ready [changes state]", service.Start),
		newServiceOrderCmd(std, g, "stop", "Stop the service and wait for its end [changes state]", service.Stop),
		newServiceOrderCmd(std, g, "restart", "Stop and start the service, and wait until it is ready [changes state]", service.Restart),
		newServiceStatusCmd(std, g), newUpgradeCheckCmd(std, g),
	)
	cmd.AddCommand(installerCmds()...)
	return cmd
}

func newServiceInstallCmd(std stdio, g *globals) *cobra.Command {
	var noStart bool
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Install the service, enable and start it [changes state]",
		Long: "Install this program as a service: the user `holdfast`, a starter configuration where there\n" +
			"is none, the unit; on Windows its account and directories; enabled at boot and started. What\n" +
			"is there already stays as it is, and a second install changes nothing. A broken configuration\n" +
			"is exit code 78, and nothing is done.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return installService(c.Context(), std, g, noStart) },
	}
	cmd.Flags().BoolVar(&noStart, "no-start", false, "install and enable only")
	return cmd
}

func installService(ctx context.Context, std stdio, g *globals, noStart bool) error {
	binary, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	file, err := filepath.Abs(cmp.Or(g.configFile(), config.PackagedFile()))
	if err != nil {
		return fmt.Errorf("find the configuration: %w", err)
	}
	dir := config.PackagedDataDir()
	out, err := service.Install(ctx, service.Setup{
		Binary: binary, Config: file, Starter: config.Starter(), NoStart: noStart,
		Check: func() error {
			cfg, l := loadForService(file)
			if l.Err() != nil {
				printProblems(std, g, cfg, l)
				return exitError(exitPermanent)
			}
			dir = cfg.Node.DataDir
			return nil
		},
	})
	if packaged := config.PackagedDataDir(); dir != packaged && !strings.HasPrefix(dir, packaged+string(filepath.Separator)) && err == nil {
		out.Notes = append(out.Notes, fmt.Sprintf("the service may write to %s only, and node.data_dir is %s: "+otherDirHint, packaged, dir))
	}
	return g.printOutcome(std, out, err)
}

func newServiceUninstallCmd(std stdio, g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "uninstall",
		Short: "Stop and remove the service; messages and configuration stay [changes state]",
		Long: "Stop the service, and remove it from the boot and its unit. Messages, keys, configuration\n" +
			"and the user stay, and it says where: an install afterwards goes on with all of them.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			dir := config.PackagedDataDir()
			if file := cmp.Or(g.configFile(), service.InstalledConfig()); file != "" {
				if cfg, l := loadForService(file); l.Err() == nil {
					dir = cfg.Node.DataDir
				}
			}
			out, err := service.Uninstall(c.Context(), dir)
			return g.printOutcome(std, out, err)
		},
	}
}

// loadForService reads a configuration as the service does: with the environment of
// its unit, and not that of whoever asks.
func loadForService(file string) (*config.Config, diag.List) {
	return appliance.LoadConfig(config.Options{File: file, Environ: service.Environment()})
}

// printOutcome tells what was done, also when it ended with an error.
func (g *globals) printOutcome(std stdio, out service.Outcome, err error) error {
	if g.json() {
		if err == nil {
			printJSON(std.out, out)
		}
		return err
	}
	for _, done := range out.Done {
		fmt.Fprintln(std.out, done)
	}
	if err != nil {
		return err
	}
	fmt.Fprintf(std.out, serviceName+": %s\n", out.Outcome)
	for _, note := range out.Notes {
		fmt.Fprintf(std.out, "note: %s\n", note)
	}
	return nil
}

func newServiceOrderCmd(std stdio, g *globals, verb, short string, order func(context.Context) (service.State, error)) *cobra.Command {
	return &cobra.Command{
		Use:   verb,
		Short: short,
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := order(c.Context())
			if err == nil {
				g.printServiceState(std.out, s)
			}
			return err
		},
	}
}

func newServiceStatusCmd(std stdio, g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show how the service is, in the eyes of the service manager [read-only]",
		Long: "Show whether the service runs, since when, what it says of itself, whether it starts at\n" +
			"boot, and which unit is in force. Exit code 0 when it runs, else 3. `holdfast status` asks\n" +
			"the node itself.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(c.Context(), askTimeout)
			defer cancel()
			s, err := service.Status(ctx)
			if err != nil {
				return err
			}
			g.printServiceState(std.out, s)
			if s.State != service.StateRunning && s.State != service.StateReloading {
				return exitError(exitNotReady)
			}
			return nil
		},
	}
}

func (g *globals) printServiceState(w io.Writer, s service.State) {
	if g.json() {
		printJSON(w, s)
		return
	}
	fmt.Fprintf(w, serviceName+": %s\n", s.State)
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	line := func(key, value string) {
		if value != "" {
			fmt.Fprintf(t, "  %s\t%s\n", key, value)
		}
	}
	line("says", s.Status)
	if s.PID != 0 {
		line("pid", fmt.Sprint(s.PID))
	}
	if s.Exit != 0 {
		line("exit code", fmt.Sprint(s.Exit))
	}
	if s.Signal != 0 {
		line("ended by", fmt.Sprintf("signal %d", s.Signal))
	}
	if s.Restarts != 0 {
		line("restarts", fmt.Sprint(s.Restarts))
	}
	if s.Since != nil {
		line("since", s.Since.Format(time.RFC3339))
	}
	if s.State != service.StateNotInstalled {
		line("at boot", map[bool]string{true: "starts", false: "does not start"}[s.Enabled])
	}
	line(unitWord, s.Unit)
	line("drop-ins", strings.Join(s.DropIns, " "))
	_ = t.Flush() // w remembers what went wrong
	for _, warning := range s.Warnings {
		fmt.Fprintf(w, "warning: %s\n", warning)
	}
}
