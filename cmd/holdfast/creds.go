// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/holdfast-mq/holdfast/appliance/admin"
	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/appliance/diag"
)

func newCredsCmd(std stdio, g *globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "creds",
		Short: "List, show, hand out, rotate and revoke credentials [changes state]",
		Long: "Credentials of users, as ACCOUNT/USER. A user's permissions are in the file and change\n" +
			"with it; the credentials stay the same.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	cmd.AddCommand(newCredsListCmd(std, g), newCredsShowCmd(std, g), newCredsExportCmd(std, g), newCredsRotateCmd(std, g), newCredsRevokeCmd(std, g),
		newCredsBackupCmd(std, g), newCredsRestoreCmd(std, g))
	return cmd
}

// asked runs a verb with the node's client and a deadline.
func asked(c *cobra.Command, g *globals, do func(ctx context.Context, node *admin.Client) error) error {
	ctx, cancel := context.WithTimeout(c.Context(), askTimeout)
	defer cancel()
	node, err := g.client()
	if err != nil {
		return err
	}
	return do(ctx, node)
}

func newCredsListCmd(std stdio, g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List users, their roles and the state of their credentials [read-only]",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return asked(c, g, func(ctx context.Context, node *admin.Client) error {
				users, err := node.Users(ctx)
				if err != nil {
					return err
				}
				if g.json() {
					printJSON(std.out, users)
					return nil
				}
				t := tabwriter.NewWriter(std.out, 0, 4, 2, ' ', 0)
				fmt.Fprintln(t, "USER\tROLE\tSTATE\tPUBLIC KEY")
				for _, u := range users {
					fmt.Fprintf(t, "%s/%s\t%s\t%s\t%s\n", u.Account, u.User, u.Role, stateText(u), u.PublicKey)
					for _, r := range u.Retiring {
						fmt.Fprintf(t, "\t\told key until %s\t%s\n", r.Until.Format(time.RFC3339), r.PublicKey)
					}
				}
				return t.Flush()
			})
		},
	}
}

func stateText(u admin.User) string {
	if u.Since.IsZero() {
		return u.State
	}
	return u.State + " " + u.Since.Format(time.DateOnly)
}

// splitUser reads ACCOUNT/USER.
func splitUser(arg string) (account, user string, err error) {
	account, user, ok := strings.Cut(arg, "/")
	if !ok || account == "" || user == "" || strings.Contains(user, "/") {
		return "", "", diag.Fail(diag.CodeUsage, fmt.Errorf("%q is not a user", arg), "write ACCOUNT/USER; `holdfast creds list` shows them")
	}
	return account, user, nil
}

func newCredsShowCmd(std stdio, g *globals) *cobra.Command {
	var language string
	cmd := &cobra.Command{
		Use:   "show ACCOUNT/USER",
		Short: "Print the credentials of a user, or a program that uses them [read-only, shows a secret]",
		Long: "Print the credentials file of a user. With --output json also where to connect, the inbox\n" +
			"prefix and the CA. With --snippet a program that connects and does what the role is for.",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return asked(c, g, func(ctx context.Context, node *admin.Client) error {
				return showCreds(ctx, std, g, node, args[0], language)
			})
		},
	}
	cmd.Flags().StringVar(&language, "snippet", "", "print a program instead, in `LANGUAGE`: "+strings.Join(snippetLanguages(), ", "))
	return cmd
}

func showCreds(ctx context.Context, std stdio, g *globals, node *admin.Client, arg, language string) error {
	account, user, err := splitUser(arg)
	if err != nil {
		return err
	}
	login, err := node.Login(ctx, account, user, false)
	switch {
	case err != nil:
		return err
	case language != "":
		return writeSnippet(std.out, language, login)
	case g.json():
		printJSON(std.out, login)
		return nil
	}
	_, err = io.WriteString(std.out, login.Creds)
	return err
}

func newCredsExportCmd(std stdio, g *globals) *cobra.Command {
	var forget bool
	cmd := &cobra.Command{
		Use:   "export ACCOUNT/USER",
		Short: "Print the credentials of a user, and forget them here with --forget [changes state]",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			return asked(c, g, func(ctx context.Context, node *admin.Client) error {
				if err := showCreds(ctx, std, g, node, args[0], ""); err != nil || !forget {
					return err
				}
				// Shown first: what is forgotten before it was written is lost.
				account, user, err := splitUser(args[0])
				if err != nil {
					return err
				}
				if err := node.ChangeUser(ctx, admin.CredsForget, account, user, 0); err != nil {
					return err
				}
				fmt.Fprintf(std.err, "forgotten here: these were the only credentials of %s; `holdfast creds rotate %s` makes new ones\n", args[0], args[0])
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&forget, "forget", false, "remove the secret from the node once it is printed")
	return cmd
}

func newCredsRotateCmd(std stdio, g *globals) *cobra.Command {
	var overlapText string
	var yes bool
	cmd := &cobra.Command{
		Use:   "rotate ACCOUNT/USER",
		Short: "Make new credentials; the old ones end now, or after --overlap [changes state]",
		Long: "Make new credentials for a user. Whoever uses the old ones is cut off: now, or when\n" +
			"--overlap is over. Asks first; --yes answers.",
		Example: "  holdfast creds rotate shop/packer --overlap 24h\n" +
			"  holdfast creds rotate --yes shop/packer",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			account, user, err := splitUser(args[0])
			if err != nil {
				return err
			}
			overlap, err := config.ParseDuration(overlapText)
			if err != nil {
				return diag.Fail(diag.CodeUsage, fmt.Errorf("read --overlap: %w", err), "write a number and a unit, such as 24h or 7d")
			}
			if !yes {
				if err := confirm(std, rotateQuestion(args[0], overlapText, overlap)); err != nil {
					return err
				}
			}
			return asked(c, g, func(ctx context.Context, node *admin.Client) error {
				if err := node.ChangeUser(ctx, admin.CredsRotate, account, user, overlap); err != nil {
					return err
				}
				// Asked for and done are not the same: those of a revoked user end at once.
				until, err := retiring(ctx, node, account, user)
				if err != nil {
					return err
				}
				old := "the old ones no longer work"
				if !until.IsZero() {
					old = "the old ones work until " + until.Local().Format(time.DateTime)
				}
				fmt.Fprintf(std.out, "%s has new credentials, %s; print the new ones with: holdfast creds show %s\n", args[0], old, args[0])
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&overlapText, "overlap", "0s", "how long the old credentials work on: `TIME`, such as 24h or 7d")
	cmd.Flags().BoolVar(&yes, "yes", false, "don't ask")
	return cmd
}

// rotateQuestion says when whoever has the old credentials is cut off.
func rotateQuestion(user, overlapText string, overlap time.Duration) string {
	if overlap > 0 {
		return fmt.Sprintf("Make new credentials for %s, and cut off whoever uses the old ones in %s?", user, overlapText)
	}
	return fmt.Sprintf("Make new credentials for %s, and cut off whoever uses the old ones now?", user)
}

// retiring is when the last of a user's old keys ends; zero when none is let in.
func retiring(ctx context.Context, node *admin.Client, account, user string) (time.Time, error) {
	users, err := node.Users(ctx)
	if err != nil {
		return time.Time{}, err
	}
	var last time.Time
	for _, u := range users {
		if u.Account != account || u.User != user {
			continue
		}
		for _, r := range u.Retiring {
			if r.Until.After(last) {
				last = r.Until
			}
		}
	}
	return last, nil
}

func newCredsRevokeCmd(std stdio, g *globals) *cobra.Command {
	var yes bool
	cmd := &cobra.Command{
		Use:   "revoke ACCOUNT/USER",
		Short: "End all credentials of a user now [changes state]",
		Long: "End all credentials of a user now, and cut off its connections. It stays out until\n" +
			"`holdfast creds rotate` makes new credentials. Asks first; --yes answers.",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			account, user, err := splitUser(args[0])
			if err != nil {
				return err
			}
			if !yes {
				if err := confirm(std, fmt.Sprintf("Cut off %s now?", args[0])); err != nil {
					return err
				}
			}
			return asked(c, g, func(ctx context.Context, node *admin.Client) error {
				if err := node.ChangeUser(ctx, admin.CredsRevoke, account, user, 0); err != nil {
					return err
				}
				fmt.Fprintf(std.out, "%s is cut off; let it in again with: holdfast creds rotate %s\n", args[0], args[0])
				return nil
			})
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "don't ask")
	return cmd
}

// confirm asks a question on the terminal; without one it refuses.
func confirm(std stdio, question string) error {
	if !term.IsTerminal(int(std.in.Fd())) {
		return diag.Fail(diag.CodeUsage, fmt.Errorf("%s nobody is there to answer", question), "add --yes")
	}
	fmt.Fprintf(std.err, "%s [y/N] ", question)
	line, err := bufio.NewReader(std.in).ReadString('\n')
	if err != nil {
		return fmt.Errorf("read the answer: %w", err)
	}
	if a := strings.ToLower(strings.TrimSpace(line)); a != "y" && a != "yes" {
		return errors.New("nothing was changed")
	}
	return nil
}

func newCACmd(std stdio, g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "ca",
		Short: "Print the CA certificate that clients must trust [read-only]",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return asked(c, g, func(ctx context.Context, node *admin.Client) error {
				ca, err := node.CA(ctx)
				if err != nil {
					return err
				}
				if ca == "" {
					return diag.Fail(diag.CodeUnknownObject, fmt.Errorf("this node has no CA to hand out: its listeners are on loopback, or its certificate is not its own"),
						"listen.client beyond loopback with tls: {mode: auto} makes one")
				}
				if g.json() {
					printJSON(std.out, map[string]string{"ca": ca})
					return nil
				}
				_, err = io.WriteString(std.out, ca)
				return err
			})
		},
	}
}
