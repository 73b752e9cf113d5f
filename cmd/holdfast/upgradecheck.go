// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/holdfast-mq/holdfast/appliance"
	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/appliance/howto"
	"github.com/holdfast-mq/holdfast/appliance/service"
)

func newUpgradeCheckCmd(std stdio, g *globals) *cobra.Command {
	var policy string
	cmd := &cobra.Command{
		Use:   "upgrade-check",
		Short: "Say whether the service may be restarted with this version [read-only]",
		Long: "Say whether the service may be restarted with this version, before the old one is stopped.\n" +
			"The packages ask it after an upgrade, with RESTART_ON_UPGRADE of /etc/default/holdfast or\n" +
			"/etc/sysconfig/holdfast as policy: yes; no; or auto, which does not restart one of three nodes.\n" +
			"Exit code 0: restart. Exit code 3: let the old process run; stderr says why, and the command.",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return upgradeCheck(std, g, policy) },
	}
	cmd.Flags().StringVar(&policy, "policy", "auto", "`POLICY`: auto, yes or no")
	return cmd
}

func upgradeCheck(std stdio, g *globals, policy string) error {
	if policy != "auto" && policy != "yes" && policy != "no" {
		return diag.Fail(diag.CodeUsage, fmt.Errorf("--policy %s is not possible", policy), "write auto, yes or no")
	}
	err := g.mayRestart(policy)
	if g.json() {
		printJSON(std.out, map[string]any{
			"restart": err == nil, "code": diag.CodeOf(err), "what": errText(err), "fix": diag.Hint(err),
		})
	} else if err == nil {
		fmt.Fprintf(std.out, "holdfast %s may take over: %s\n", version, howto.Here().Restart())
	} else {
		fmt.Fprintf(std.err, "holdfast: not restarted, the version before runs on: %v\nhint: %s\n", err, diag.Hint(err))
	}
	if err != nil {
		return exitError(exitNotReady)
	}
	return nil
}

// mayRestart returns why the old process is to run on. What this version could not
// start with comes first: no policy helps there.
func (g *globals) mayRestart(policy string) error {
	file := cmp.Or(g.configFile(), service.InstalledConfig(), config.PackagedFile())
	cfg, problems := loadForService(file)
	if problems.Err() != nil {
		p := problems[0]
		for _, other := range problems {
			if other.Severity == diag.Error {
				p = other
				break
			}
		}
		return diag.Fail(p.Code, errors.New(firstError(problems)),
			"correct that, as `holdfast check "+file+"` shows, then: "+howto.Here().Restart())
	}
	if err := appliance.CheckStore(cfg.Node.DataDir); err != nil {
		return err
	}
	switch {
	case policy == "no":
		return diag.Fail(diag.CodeKeepRunning, errors.New("RESTART_ON_UPGRADE is no"), howto.Here().Restart())
	case policy == "auto" && cfg.Replicated():
		return diag.Fail(diag.CodeKeepRunning, fmt.Errorf("this is one of %d nodes, which are restarted one after the other", len(cfg.Cluster.Peers)),
			howto.Here().Restart()+", when `holdfast status` says ready on all of them")
	}
	return nil
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
