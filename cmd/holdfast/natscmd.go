// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/choria-io/fisk"
	"github.com/nats-io/jwt/v2"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/natscli/cli"
	"github.com/nats-io/natscli/options"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/holdfast-mq/holdfast/appliance/admin"
	"github.com/holdfast-mq/holdfast/appliance/diag"
)

const natsHelp = `The nats command line tool of the NATS project, connected to this node and logged in.
"server" commands use the system account; all others the account of --account.

Before the nats command: --account NAME, --user NAME, --config FILE, --data-dir DIR.`

func newNATSCmd(std stdio, g *globals) *cobra.Command {
	return &cobra.Command{
		Use:                "nats [--account NAME] COMMAND …",
		Short:              "The nats command line tool, connected and logged in [changes state]",
		Long:               natsHelp,
		DisableFlagParsing: true, // what follows is the nats tool's own
		ValidArgsFunction:  completeNATS(std, g),
		RunE: func(c *cobra.Command, args []string) error {
			own, rest, err := splitNATSArgs(args)
			if err != nil {
				fmt.Fprintf(std.err, "holdfast: %v\nhint: see `holdfast nats --help`\n", err)
				return exitError(exitUsage)
			}
			if own.config != "" {
				g.config = own.config
			}
			if own.dataDir != "" {
				g.dataDir = own.dataDir
			}
			return runNATS(c.Context(), std, g, own, rest)
		},
	}
}

// natsArgs are the words before the nats command that are Holdfast's.
type natsArgs struct{ account, user, config, dataDir string }

// splitNATSArgs takes Holdfast's own flags off the front. The first word that
// is not one of them, and all that follows, belongs to the nats tool.
func splitNATSArgs(args []string) (own natsArgs, rest []string, err error) {
	flags := map[string]*string{
		"--account": &own.account, "--user": &own.user, "--config": &own.config, "-c": &own.config, "--data-dir": &own.dataDir,
	}
	for len(args) > 0 {
		name, value, inline := strings.Cut(args[0], "=")
		into, ok := flags[name]
		if !ok {
			break
		}
		args = args[1:]
		if !inline {
			if len(args) == 0 {
				return own, nil, fmt.Errorf("%s needs a value", name)
			}
			value, args = args[0], args[1:]
		}
		*into = value
	}
	return own, args, nil
}

func runNATS(ctx context.Context, std stdio, g *globals, own natsArgs, args []string) error {
	app, opts, err := newNATSApp(std)
	if err != nil {
		return fmt.Errorf("prepare the nats command: %w", err)
	}
	if command := selected(app, args); command != nil {
		ctx, cancel := context.WithTimeout(ctx, askTimeout)
		defer cancel()
		node, err := g.client()
		if err != nil {
			return err
		}
		login, err := node.Login(ctx, own.account, own.user, needsSystem(command))
		if err != nil {
			return err
		}
		// Caught before there is anything to forget: a signal that comes while the
		// file is written must not leave it behind.
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
		forget, err := connectAs(opts, login)
		if err != nil {
			signal.Stop(signals)
			return err
		}
		defer forget()
		defer forgetAtSignal(signals, forget)()
		args = withDefaults(command.FullCommand, args, term.IsTerminal(int(std.in.Fd())))
	}
	if _, err := app.Parse(args); err != nil {
		return natsFailed(err)
	}
	return nil
}

// natsFailed puts an error of the nats tool into ours: once "nats:", and what to do
// about what meets a newcomer first.
func natsFailed(err error) error {
	told := errors.New("nats: " + strings.TrimPrefix(err.Error(), "nats: "))
	var api *nats.APIError
	switch {
	case errors.Is(err, nats.ErrNoResponders):
		return diag.Fail(diag.CodeUnknownObject, told, "no stream takes this subject, or the one that does has no leader now, and the message is not stored; `holdfast status --output json` lists the subjects of each stream, `holdfast cluster status` who leads")
	case errors.As(err, &api) && api.ErrorCode == 10002:
		return diag.Fail(diag.CodeDiskFull, told, "the disk limit of the account is reached, or publishing is stopped for want of room; `holdfast status` says which")
	}
	return told
}

// selected returns the command that the words mean, whatever alias they use.
// It is nil for help and for mistakes, which need no node.
func selected(app *fisk.Application, args []string) *fisk.CmdModel {
	parsed, err := app.ParseContext(args)
	if err != nil || parsed == nil || parsed.SelectedCommand == nil || asksForHelp(args) {
		return nil
	}
	name := parsed.SelectedCommand.FullCommand()
	for _, c := range app.Model().FlattenedCommands() {
		if c.FullCommand == name && name != "help" {
			return c
		}
	}
	return nil
}

func asksForHelp(args []string) bool {
	for _, a := range args {
		if a == "--" {
			return false
		}
		if a == "--help" || a == "-h" || strings.HasPrefix(a, "--help-") {
			return true
		}
	}
	return false
}

// needsSystem is true for commands about the server and not about an account.
// The nats tool tags them itself, all but one.
func needsSystem(c *fisk.CmdModel) bool {
	return slices.Contains(c.Tags, "scope:system") || c.FullCommand == "server check meta"
}

func newNATSApp(std stdio) (*fisk.Application, *options.Options, error) {
	app := fisk.New("holdfast nats", natsHelp)
	app.UsageWriter(std.out)
	app.ErrorWriter(std.err)
	app.HelpFlag.Short('h')
	app.WithCheats().CheatCommand.Hidden()
	cli.SetVersion(version)
	// A context of this user for some other server must not lead elsewhere.
	cli.SkipContexts = true
	opts := &options.Options{Timeout: 5 * time.Second, ConnectionName: "holdfast nats"}
	_, err := cli.ConfigureInApp(app, opts, true, "context", "auth")
	if err != nil {
		return nil, nil, err
	}
	app.Flag("timeout", "Time to wait for an answer").Default("5s").DurationVar(&opts.Timeout)
	app.Flag("js-domain", "JetStream domain to ask").PlaceHolder("DOMAIN").StringVar(&opts.JsDomain)
	app.Flag("inbox-prefix", "Prefix of reply subjects").PlaceHolder("PREFIX").StringVar(&opts.InboxPrefix)
	// For a node that asks clients for a certificate; the CA comes from the node.
	app.Flag("tlscert", "Certificate to show to the node").PlaceHolder("FILE").StringVar(&opts.TlsCert)
	app.Flag("tlskey", "Key of that certificate").PlaceHolder("FILE").StringVar(&opts.TlsKey)
	app.Flag("trace", "Show the requests and answers").UnNegatableBoolVar(&opts.Trace)
	return app, opts, nil
}

// connectAs logs the nats tool in without a credentials file: the secret stays
// in this process.
// The CA is no secret and goes through a file, which forget removes.
func connectAs(opts *options.Options, l admin.Login) (forget func(), err error) {
	token, err := jwt.ParseDecoratedJWT([]byte(l.Creds))
	if err != nil {
		return nil, fmt.Errorf("read credentials: %w", err)
	}
	key, err := jwt.ParseDecoratedUserNKey([]byte(l.Creds))
	if err != nil {
		return nil, fmt.Errorf("read credentials: %w", err)
	}
	seed, err := key.Seed()
	if err != nil {
		return nil, fmt.Errorf("read credentials: %w", err)
	}
	opts.Servers, opts.UserJwt, opts.UserSeed = l.LocalURL, token, string(seed)
	if l.User != "" {
		opts.InboxPrefix = l.InboxPrefix
	}
	if l.CA == "" {
		return func() {}, nil
	}
	f, err := os.CreateTemp("", "holdfast-ca-*.crt")
	if err != nil {
		return nil, fmt.Errorf("write CA for the nats command: %w", err)
	}
	forget = func() { _ = os.Remove(f.Name()) } // nothing secret, and nothing to do about it
	_, err = f.WriteString(l.CA)
	if err = errors.Join(err, f.Close()); err != nil {
		forget()
		return nil, fmt.Errorf("write CA for the nats command: %w", err)
	}
	opts.TlsCA = f.Name()
	return forget, nil
}

// forgetAtSignal does what a deferred call can't: the nats tool is ended by
// Ctrl-C more often than not. Then the signal ends the process as ever.
func forgetAtSignal(c chan os.Signal, forget func()) (stop func()) {
	go func() {
		s, ok := <-c
		if !ok {
			return
		}
		forget()
		signal.Reset(s)
		self, err := os.FindProcess(os.Getpid())
		if err == nil && self.Signal(s) != nil {
			_ = self.Kill() // Windows has no signals to send
		}
	}()
	return func() {
		signal.Stop(c)
		close(c)
	}
}

// withDefaults answers the questions of `stream add` and `consumer add` where
// nobody is there to answer them.
func withDefaults(command string, args []string, terminal bool) []string {
	asks := command == "stream add" || command == "consumer add"
	if !asks || terminal || slices.Contains(args, "--defaults") {
		return args
	}
	return append(slices.Clone(args), "--defaults")
}
