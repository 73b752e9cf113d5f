// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"cmp"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/config"
	"github.com/holdfast-mq/holdfast/appliance/datadir"
	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/appliance/howto"
	"github.com/holdfast-mq/holdfast/appliance/join"
)

const (
	// clusterSecretName and joinKeyName are the files beside the configuration: the secret,
	// and the key that a token is bound to until the machine has everything.
	clusterSecretName = "cluster.secret"
	joinKeyName       = "cluster-join.key"
	// redeemLimit is how long a node is tried that does not answer: it closes the port for
	// a moment when it has its identity.
	redeemLimit = 10 * time.Second
	redeemEvery = 500 * time.Millisecond
)

// TokenJoin makes this machine a node of a cluster, with a token. It only writes files:
// the node joins when it starts with them.
type TokenJoin struct {
	Token string
	// File is the configuration of the node; it need not exist.
	File string
	// Load reads a configuration the way the node will: from texts in place of the files.
	Load    func(texts []config.Text) (*config.Config, diag.List)
	Version string

	limit time.Duration // redeemLimit when it is 0
}

// Admission is what a token brought, before anything was changed.
type Admission struct {
	Cluster string
	// Already is true on a machine that has the block and the secret of that cluster: the
	// token was not used.
	Already bool
	// From is the node that answered.
	From  string
	Files []FileChange
	// Notes say what is left to a person.
	Notes []string

	key  string // file of the machine's key
	like string // whom new files are to belong to
}

// FileChange is a file that is written.
type FileChange struct {
	Path string
	What string // in one line
	// Text is what is added; empty for a secret.
	Text string

	data []byte
	perm fs.FileMode
}

// Ask shows the token to the node that made it, and says what will be written. The token
// is bound to this machine then: it can ask again until the token expires.
func (t TokenJoin) Ask(ctx context.Context) (*Admission, error) {
	token, err := join.ParseToken(t.Token)
	if err != nil {
		return nil, err
	}
	if t.File, err = filepath.Abs(t.File); err != nil {
		return nil, fmt.Errorf("find the configuration: %w", err)
	}
	texts, err := t.texts()
	if err != nil {
		return nil, err
	}
	cfg, l := t.Load(texts)
	if err := l.Err(); err != nil && !onlySecretIsMissing(l) {
		return nil, diag.Fail(diag.CodeClusterOwn, fmt.Errorf("the configuration of this machine is not valid: %w", err), "`holdfast check "+t.File+"` shows all of it; correct it first")
	}
	if cfg.Cluster != nil && l.Err() == nil {
		if err := t.sameCluster(ctx, token, cfg); err != nil {
			return nil, err
		}
		return &Admission{Cluster: cfg.Cluster.Name, Already: true, key: t.keyFile()}, nil
	}
	name, err := untouched(cfg)
	if err != nil {
		return nil, err
	}
	key, err := t.machineKey(token)
	if err != nil {
		return nil, err
	}
	grant, err := t.redeem(ctx, token, key, name)
	switch {
	case diag.CodeOf(err) == diag.CodeClusterTokenRefused:
		// For good: nobody asks with it again.
		if kept := t.forgetKey(token); kept != nil {
			return nil, errors.Join(err, kept)
		}
		return nil, err
	case err != nil:
		return nil, err
	}
	return t.admit(ctx, grant, cfg, texts)
}

// Write writes the files: the secret first, for the configuration names it. It may be
// cut off anywhere and everything run again.
func (a *Admission) Write() error {
	for _, f := range a.Files {
		if err := f.write(a.like); err != nil {
			return err
		}
	}
	return removeKey(a.key)
}

func (f FileChange) write(like string) error {
	return datadir.WriteFileLike(f.Path, f.data, f.perm, like)
}

// texts are the file and its overlays; none where there is no file.
func (t TokenJoin) texts() ([]config.Text, error) {
	if _, err := os.Lstat(t.File); errors.Is(err, fs.ErrNotExist) {
		return []config.Text{}, nil
	}
	texts, l := config.ReadTexts(t.File)
	if err := l.Err(); err != nil {
		return nil, diag.Fail(diag.CodeUnreadable, fmt.Errorf("read the configuration of this machine: %w", err), "run it with sudo, or correct the file's permissions")
	}
	return texts, nil
}

// untouched refuses a machine that has something to lose, and returns the name of its
// node, where it has one already.
func untouched(cfg *config.Config) (name string, err error) {
	dir := cfg.Node.DataDir
	stamp, err := datadir.Look(dir, cfg.Node.Name)
	if err != nil {
		return "", err
	}
	stored, err := datadir.StoredAccounts(dir)
	if err != nil {
		return "", err
	}
	has := ""
	if len(stored) > 0 {
		has = "messages"
	} else if _, err := os.Lstat(datadir.IdentityPath(dir)); err == nil {
		has = "an identity"
	}
	if has != "" {
		return "", diag.Fail(diag.CodeClusterOwn, fmt.Errorf("data directory %s has %s of its own, or is that of a node of a cluster already", dir, has),
			"if nothing in it is needed: stop the node (`"+howto.Here().Stop()+"`), remove what is in "+dir+", and run this again. A node with messages keeps them when it is the one that invites")
	}
	if cfg.Node.Name != "" {
		return cfg.Node.Name, nil
	}
	return stamp.NodeName, nil
}

// machineKey is what the token gets bound to. It is kept until everything is written, with
// the token that it was made for, of which only the public half is written.
func (t TokenJoin) machineKey(token join.Token) (ed25519.PrivateKey, error) {
	path := t.keyFile()
	data, err := os.ReadFile(path)
	if err == nil {
		text, _, _ := strings.Cut(string(data), "\n")
		seed, err := hex.DecodeString(strings.TrimSpace(text))
		if err == nil && len(seed) == ed25519.SeedSize {
			return ed25519.NewKeyFromSeed(seed), nil
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, diag.Fail(diag.CodeAccess, fmt.Errorf("read the key of a token: %w", err), "run it as the user who ran it before")
	}
	public, err := token.Public()
	if err != nil {
		return nil, err
	}
	seed := make([]byte, ed25519.SeedSize)
	_, _ = rand.Read(seed) // never fails
	if err := datadir.WriteFile(path, []byte(hex.EncodeToString(seed)+"\n"+hex.EncodeToString(public)+"\n"), 0o600); err != nil {
		return nil, err
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

// forgetKey removes the key of a token that was refused for good. One that another token
// may be bound to stays, for that one works from here alone.
func (t TokenJoin) forgetKey(token join.Token) error {
	public, err := token.Public()
	if err != nil {
		return err
	}
	data, err := os.ReadFile(t.keyFile())
	if err != nil {
		return fmt.Errorf("remove the key of the token: %w", err)
	}
	if _, of, _ := strings.Cut(strings.TrimSpace(string(data)), "\n"); of != "" && of != hex.EncodeToString(public) {
		return nil
	}
	return removeKey(t.keyFile())
}

func removeKey(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the key of the token: %w", err)
	}
	return nil
}

func (t TokenJoin) keyFile() string { return filepath.Join(filepath.Dir(t.File), joinKeyName) }

// redeem tries for a while.
func (t TokenJoin) redeem(ctx context.Context, token join.Token, key ed25519.PrivateKey, name string) (join.Grant, error) {
	var g join.Grant
	err := t.patiently(ctx, func() (err error) {
		g, err = join.Redeem(ctx, token, key, name, t.Version)
		return err
	})
	return g, err
}

// patiently asks a node that does not answer again, for a while.
func (t TokenJoin) patiently(ctx context.Context, ask func() error) error {
	until := time.Now().Add(cmp.Or(t.limit, redeemLimit))
	for {
		err := ask()
		if err == nil || diag.CodeOf(err) != diag.CodeClusterPeer || time.Now().After(until) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(redeemEvery):
		}
	}
}

// admit works out what to write.
func (t TokenJoin) admit(ctx context.Context, g join.Grant, had *config.Config, texts []config.Text) (*Admission, error) {
	a := &Admission{Cluster: g.Cluster, From: g.Node, key: t.keyFile(), like: t.like()}
	secret, known := filepath.Join(filepath.Dir(t.File), clusterSecretName), false
	if c := had.Cluster; c != nil {
		if c.Name != g.Cluster || !slices.Equal(c.Peers, g.Peers) {
			return nil, diag.Fail(diag.CodeClusterOwn, fmt.Errorf("the configuration of this machine has another block `cluster:` than node %s", g.Node),
				"remove the block from "+t.File+" and run this again: the token works from here until it expires")
		}
		secret, known = c.Secret.Path(), true
	}
	if err := a.addSecret(secret, g); err != nil {
		return nil, err
	}
	if known {
		return a, t.check(ctx, g, texts)
	}
	block := blockFor(g).Block(secret)
	change, next, whole := t.write(g, texts, block)
	if err := t.check(ctx, g, next); err != nil {
		return nil, err
	}
	cfg, _ := t.Load(next)
	a.Files = append(a.Files, change)
	a.Notes = append(a.Notes, notes(g, cfg, whole)...)
	return a, nil
}

// check makes sure that the node can start with the texts.
func (t TokenJoin) check(ctx context.Context, g join.Grant, texts []config.Text) error {
	cfg, l := t.Load(texts)
	if err := l.Err(); err != nil && !onlySecretIsMissing(l) {
		return diag.Fail(diag.CodeClusterOwn, fmt.Errorf("the configuration with the block `cluster:` would not be valid here: %w", err),
			firstFix(l)+"; then run this again: the token works from here until it expires")
	}
	if _, err := untouched(cfg); err != nil {
		return err
	}
	self, err := selfAmong(ctx, cfg.Cluster)
	if err != nil {
		return diag.Fail(diag.CodeClusterPeer, err, "make the token for this machine: `holdfast cluster invite --for HOST:PORT` with the one of cluster.peers that it is")
	}
	if cfg.Cluster.Peers[self] == g.Self {
		return diag.Fail(diag.CodeClusterOwn, fmt.Errorf("this machine has the address of node %s, which made the token: %s", g.Node, g.Self),
			"run it on the machine that is to join; or make the token with --for HOST:PORT, the one of cluster.peers that it is")
	}
	return nil
}

func firstFix(l diag.List) string {
	for _, p := range l {
		if p.Severity == diag.Error && p.Fix != "" {
			return p.Fix
		}
	}
	return "correct that"
}

// onlySecretIsMissing reports whether all that is wrong is the file that is written next.
func onlySecretIsMissing(l diag.List) bool {
	return !slices.ContainsFunc(l, func(p diag.Problem) bool {
		return p.Severity == diag.Error && (p.Code != diag.CodeSecretFile || p.Path != "cluster.secret")
	})
}
