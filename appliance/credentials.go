// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/admin"
	"github.com/holdfast-mq/holdfast/appliance/datadir"
	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/bootstrap/identity"
)

// Users lists who may connect, without anything secret.
func (a *Appliance) Users() []admin.User {
	out := []admin.User{}
	for _, i := range a.identity.List() {
		u := admin.User{
			Account: i.Account, User: i.User, Role: string(i.Role), PublicKey: i.PublicKey, State: string(i.State),
			Created: i.Created, Rotated: i.Rotated, Since: i.Since,
		}
		for _, r := range i.Retiring {
			u.Retiring = append(u.Retiring, admin.RetiringKey{PublicKey: r.PublicKey, Until: r.Until})
		}
		out = append(out, u)
	}
	return out
}

// Login returns credentials for clients: of a declared user, or, with system
// set, of the system account.
func (a *Appliance) Login(account, user string, system bool) (admin.Login, error) {
	out, err := a.connection()
	if err != nil {
		return admin.Login{}, err
	}
	if system {
		l, err := a.identity.SystemLogin()
		if err != nil {
			return admin.Login{}, fmt.Errorf("make system credentials: %w", err)
		}
		file, err := l.File()
		out.Account, out.Creds = identity.SystemName, string(file)
		return out, err
	}
	if out.Account, err = a.pickAccount(account); err != nil {
		return admin.Login{}, err
	}
	if user == "" {
		return a.adminLogin(out)
	}
	out.User = user
	a.describeUser(&out)
	creds, err := a.identity.Creds(out.Account, out.User)
	out.Creds = string(creds)
	return out, err
}

// adminLogin is for a command that names no user: whoever may ask on the admin
// socket may do anything in the account, whether or not the file declares
// somebody who may.
func (a *Appliance) adminLogin(out admin.Login) (admin.Login, error) {
	l, err := a.identity.InternalLogin(out.Account)
	if err != nil {
		return admin.Login{}, fmt.Errorf("make credentials: %w", err)
	}
	file, err := l.File()
	out.Role, out.Creds = string(identity.RoleAdmin), string(file)
	return out, err
}

// connection is where clients connect, and what they must trust.
func (a *Appliance) connection() (admin.Login, error) {
	a.mu.Lock()
	addr := a.clientAddr
	a.mu.Unlock()
	if addr == nil {
		return admin.Login{}, diag.Fail(diag.CodeNotReady, errors.New("the client port is not open yet"),
			"`holdfast status` shows how far the node is")
	}
	host, port, err := net.SplitHostPort(addr.String())
	if err != nil {
		return admin.Login{}, fmt.Errorf("read the client address: %w", err)
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	scheme := "nats://"
	out := admin.Login{}
	if a.clientCerts != nil {
		scheme, out.CA = "tls://", a.CA()
	}
	out.LocalURL = scheme + net.JoinHostPort(host, port)
	out.URL = out.LocalURL
	if adv := a.opts.Config.Listen.Advertise; len(adv) > 0 {
		out.URL = scheme + withPort(adv[0], port)
	}
	return out, nil
}

// withPort adds the port to a name clients use, unless it brings one.
func withPort(name, port string) string {
	if _, _, err := net.SplitHostPort(name); err == nil {
		return name
	}
	return net.JoinHostPort(name, port)
}

// describeUser adds what the user's role needs to know to be of use.
func (a *Appliance) describeUser(l *admin.Login) {
	u := a.config().Accounts[l.Account].Users[l.User]
	l.Role, l.InboxPrefix = u.RoleName(), identity.InboxPrefix(l.User)
	if l.Role == "" {
		l.Role = string(identity.RoleCustom)
	}
	l.Subjects = storedSubjects(a.config().Accounts[l.Account], u)
	l.Consumers = u.Consumers
}

// ChangeUser rotates, revokes or forgets the credentials of a user and makes
// the running server know. overlap is for rotate only.
func (a *Appliance) ChangeUser(ctx context.Context, op admin.CredsOp, account, user string, overlap time.Duration) error {
	if err := a.heldBack(); err != nil {
		return err
	}
	var err error
	switch op {
	case admin.CredsRotate:
		err = a.identity.Rotate(account, user, overlap)
	case admin.CredsRevoke:
		err = a.identity.Revoke(account, user)
	case admin.CredsForget:
		err = a.identity.Forget(account, user)
	default:
		err = diag.Fail(diag.CodeUsage, fmt.Errorf("credentials can't be changed by %q", op), "use rotate, revoke or forget")
	}
	if err != nil {
		return err
	}
	a.rememberKeys()
	a.log.Info("credentials changed", keyAccount, account, keyUser, user, keyAction, string(op))
	return errors.Join(a.writeCreds(), a.publishIdentity(ctx))
}

// publishIdentity hands the server every account token that it does not have
// yet. A token that can't be handed over is tried again by tendIdentity.
func (a *Appliance) publishIdentity(ctx context.Context) error {
	a.publishing.Lock()
	defer a.publishing.Unlock()
	if a.cluster != nil {
		return a.carryShared(ctx, func() error { return a.publishTokens(ctx) })
	}
	return a.publishTokens(ctx)
}

func (a *Appliance) publishTokens(ctx context.Context) error {
	var errs []error
	others, err := a.engine.Connected()
	if err != nil {
		errs = append(errs, err) // this node has them all the same
	}
	for public, token := range a.identity.Trust().Preload {
		if a.published[public] == token {
			continue
		}
		silent, err := a.js.UpdateAccount(ctx, identity.SystemName, token, others)
		if err != nil {
			errs = append(errs, fmt.Errorf("account %q: %w", a.accountName(public), err))
			continue
		}
		a.published[public] = token
		// Waiting for one that hears nothing is done once.
		others = slices.DeleteFunc(others, func(n string) bool { return slices.Contains(silent, n) })
	}
	return errors.Join(errs...)
}

// identityEvery is how often overlaps that are over are looked for, and tokens
// that the server did not take are handed over again.
const identityEvery = 10 * time.Second

// tendIdentity ends overlaps when their time has come, until ctx is done.
func (a *Appliance) tendIdentity(ctx context.Context) {
	tick := time.NewTicker(identityEvery)
	defer tick.Stop()
	for {
		changed, _, err := a.identity.Expire()
		if err == nil && changed {
			a.log.Info("old credentials ended: their overlap is over")
			err = a.writeCreds()
		}
		if errors.Is(err, errNoLeader) {
			err = nil // the overlap ends when there is one
		}
		if err = errors.Join(err, a.publishIdentity(ctx)); err != nil && ctx.Err() == nil {
			a.log.Warn("credentials not brought up to date, tried again soon", keyErr, err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// writeCreds keeps a credentials file for every user in the data directory, for
// clients on this machine, and removes those of users that have none here any more.
func (a *Appliance) writeCreds() error {
	keep := map[string]bool{}
	for _, i := range a.identity.List() {
		if i.State != identity.StateActive {
			continue
		}
		creds, err := a.identity.Creds(i.Account, i.User)
		if err != nil {
			return fmt.Errorf("make credentials: %w", err)
		}
		path := a.CredsFile(i.Account, i.User)
		keep[path] = true
		if have, err := os.ReadFile(path); err == nil && string(have) == string(creds) {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return fmt.Errorf("make credentials directory: %w", err)
		}
		if err := datadir.WriteFile(path, creds, 0o600); err != nil {
			return err
		}
	}
	return a.removeCreds(keep)
}

func (a *Appliance) removeCreds(keep map[string]bool) error {
	files, err := filepath.Glob(filepath.Join(a.dir.CredsDir(), "*", "*.creds"))
	if err != nil {
		return fmt.Errorf("list credentials: %w", err)
	}
	for _, f := range files {
		if keep[f] {
			continue
		}
		if err := os.Remove(f); err != nil {
			return fmt.Errorf("remove credentials: %w", err)
		}
	}
	return nil
}

// CredsFile is where the credentials of a user are.
func (a *Appliance) CredsFile(account, user string) string {
	return filepath.Join(a.dir.CredsDir(), account, user+".creds")
}

// CA returns the certificate of the CA that clients must trust, in PEM; empty
// when the client listener is not encrypted or its certificate is of a public CA.
func (a *Appliance) CA() string {
	if a.clientCerts == nil {
		return ""
	}
	return string(a.clientCerts.CA())
}

// pickAccount is the account a command means that names none.
func (a *Appliance) pickAccount(account string) (string, error) {
	names := a.accountNames()
	switch {
	case account != "":
		return account, nil
	case len(names) == 1:
		return names[0], nil
	case len(names) == 0:
		return "", diag.Fail(diag.CodeUnknownObject, errors.New("the configuration declares no account"), "declare one under `accounts:`")
	}
	return "", diag.Fail(diag.CodeUnknownObject, fmt.Errorf("there are %d accounts: %s", len(names), strings.Join(names, ", ")),
		"name one with --account")
}
