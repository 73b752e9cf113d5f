// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode"

	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/appliance/howto"
)

// The names in the data directory.
const (
	lockName     = "LOCK"
	stampName    = "VERSION"
	identityName = "identity.json"
	credsName    = "creds"
	resolverName = "resolver"
	tlsName      = "tls"
	routesName   = "routes"
	invitesName  = "invites.json"
	// growsName is on a node of a cluster that nobody may use yet; see docs/adr/0015.
	growsName = "GROWS"
	// growingName and keptName are for a store that is taken into a cluster.
	growingName = "growing"
	keptName    = "before-cluster"
	// usedName marks a directory whose message store was in use.
	usedName   = "STORE"
	socketName = "admin.sock"
	// storeName is what nats-server appends to its store_dir.
	storeName = "jetstream"
	// lostAndFound is made by mkfs in the root of a volume.
	lostAndFound = "lost+found"
)

// Options say how a data directory is opened.
type Options struct {
	// Version is the version of Holdfast that is written into the stamp.
	Version string
	// NodeName is the configured name; empty means generated once and kept.
	NodeName string
	// AllowUnsafe accepts a temporary directory, a tmpfs and a network file
	// system. What would have been refused is in Warnings then.
	AllowUnsafe bool
}

// Dir is an open data directory. It is locked until Close.
type Dir struct {
	path     string
	lock     *lock
	stamp    stamp
	warnings []string
}

// Open locks the directory, checks that it can hold messages and is Holdfast's
// own, and stamps it when it is new. A directory that does not exist is
// created, but not its parents: a mistyped path must not become an empty node.
func Open(path string, o Options) (*Dir, error) {
	if path == "" {
		return nil, errors.New("open data directory: path is empty")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("open data directory %s: %w", path, err)
	}
	if o.NodeName != "" && !validNodeName(o.NodeName) {
		return nil, diag.FailPermanently(diag.CodeName,
			fmt.Errorf("node name %q is longer than 255 bytes, or holds a space or a control character", o.NodeName),
			"set node.name to letters, digits, '-' and '_', or remove the key")
	}
	exists, err := findDir(path)
	if err != nil {
		return nil, err
	}
	// Everything up to the lock leaves no trace in a directory that is not ours.
	if exists {
		if err := checkAccess(path); err != nil {
			return nil, err
		}
	}
	warnings, err := checkPlace(path, o.AllowUnsafe)
	if err != nil {
		return nil, err
	}
	if !exists {
		if err := createDir(path); err != nil {
			return nil, err
		}
	}
	if err := refuseUnstamped(path); err != nil {
		return nil, err
	}
	l, err := acquire(path)
	if err != nil {
		return nil, err
	}
	d := &Dir{path: path, lock: l, warnings: warnings}
	if err := d.prepare(o); err != nil {
		return nil, errors.Join(err, l.release())
	}
	return d, nil
}

// prepare reads or creates what belongs in a locked directory.
func (d *Dir) prepare(o Options) error {
	s, err := readStamp(d.path)
	isNew := errors.Is(err, fs.ErrNotExist)
	switch {
	case isNew:
		err = refuseUnstamped(d.path)
	case err == nil:
		err = s.checkName(d.path, o.NodeName)
	}
	if err != nil {
		return err
	}
	if err := d.refuseLostStore(); err != nil {
		return err
	}
	if err := removeLeftovers(d.path, d.CredsDir(), d.TLSDir(), d.RoutesDir()); err != nil {
		return err
	}
	switch {
	case isNew:
		s, err = createStamp(d.path, o)
	case s.WrittenBy != o.Version:
		err = s.update(d.path, o.Version)
		// Only a record: a node must start on a full disk, so that consumers can empty it.
		if diag.CodeOf(err) == diag.CodeDiskFull {
			d.warnings = append(d.warnings, fmt.Sprintf("version %q is not recorded: %v", o.Version, err))
			err = nil
		}
	}
	if err != nil {
		return err
	}
	d.stamp = s
	// After the stamp: a directory with files but no stamp is refused.
	return d.makeOwnDirs()
}

// refuseLostStore finds a message store that is gone, such as a volume that was
// not mounted: a node on an empty store would take messages that the real one
// never sees.
func (d *Dir) refuseLostStore() error {
	mark := filepath.Join(d.path, usedName)
	if _, err := os.Lstat(mark); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	stored, err := storedAccounts(d.path)
	if err != nil || len(stored) > 0 {
		return err
	}
	return diag.FailPermanently(diag.CodeStoreGone,
		fmt.Errorf("data directory %s: the message store was in use, and %s is empty or gone", d.path, filepath.Join(d.path, storeName)),
		fmt.Sprintf("mount its volume, or restore it from a backup; to start without the messages: `%s`", howto.Here().Remove(mark)))
}

// MarkUsed notes that the message store is in use, so that a later start without
// it is refused. It is called once the store exists.
func (d *Dir) MarkUsed() error {
	mark := filepath.Join(d.path, usedName)
	if _, err := os.Lstat(mark); err == nil {
		return nil
	}
	return WriteFile(mark, []byte("The message store of this directory is in use; see docs/errors.md, HF2012.\n"), 0o600)
}

// makeOwnDirs creates what holds keys, for the node alone. They are on disk
// before anything in them is handed out: a CA that clients took and a power cut
// then lost would lock them out.
func (d *Dir) makeOwnDirs() error {
	made := false
	for _, dir := range []string{d.CredsDir(), d.ResolverDir(), d.TLSDir()} {
		err := os.Mkdir(dir, 0o700)
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return explain("create", dir, err)
		}
		made = made || err == nil
	}
	if !made {
		return nil
	}
	if err := syncDir(d.path); err != nil {
		return explain("create directories in", d.path, err)
	}
	return nil
}

// MakeRoutesDir creates the directory of RoutesDir, for a node of a cluster.
func (d *Dir) MakeRoutesDir() error {
	err := os.Mkdir(d.RoutesDir(), 0o700)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err == nil {
		err = syncDir(d.path)
	}
	if err != nil {
		return explain("create", d.RoutesDir(), err)
	}
	return nil
}

// findDir reports whether path is a directory, or that it can become one.
func findDir(path string) (exists bool, err error) {
	fi, err := os.Stat(path)
	switch {
	case err == nil && fi.IsDir():
		return true, nil
	case err == nil:
		return false, explain("open data directory", path, syscall.ENOTDIR)
	case !errors.Is(err, fs.ErrNotExist):
		return false, explain("open data directory", path, err)
	}
	parent := filepath.Dir(path)
	if _, err := os.Stat(parent); errors.Is(err, fs.ErrNotExist) {
		return false, diag.FailPermanently(diag.CodeAccess,
			fmt.Errorf("create data directory %s: its parent %s does not exist", path, parent),
			fmt.Sprintf("check node.data_dir for a typing mistake, or create the parent: `%s`", howto.Here().MakeDir(parent)))
	}
	return false, nil
}

func createDir(path string) error {
	err := makePrivate(path)
	switch {
	case errors.Is(err, fs.ErrExist):
		// Another process was faster; the lock decides between the two.
		return checkAccess(path)
	case errors.Is(err, fs.ErrPermission):
		return diag.FailPermanently(diag.CodeAccess,
			fmt.Errorf("create data directory %s: %w", path, bareError(err)), createHint(path))
	case err == nil:
		err = syncDir(filepath.Dir(path))
	}
	if err != nil {
		return explain("create data directory", path, err)
	}
	return nil
}

// Close releases the lock. Nothing may use the directory afterwards.
func (d *Dir) Close() error { return d.lock.release() }

// Path returns the absolute path of the data directory.
func (d *Dir) Path() string { return d.path }

// NodeName returns the name this node has kept since its first start.
func (d *Dir) NodeName() string { return d.stamp.NodeName }

// NodeID returns the random id this directory got when it was created.
func (d *Dir) NodeID() string { return d.stamp.NodeID }

// Warnings returns what is not as it should be but was accepted.
func (d *Dir) Warnings() []string { return slices.Clone(d.warnings) }

// IdentityFile returns where the node's keys and accounts are kept.
func (d *Dir) IdentityFile() string { return filepath.Join(d.path, identityName) }

// CredsDir returns the directory of the credentials files; it exists.
func (d *Dir) CredsDir() string { return filepath.Join(d.path, credsName) }

// StoreDir returns nats-server's store_dir, to which it appends "jetstream".
func (d *Dir) StoreDir() string { return d.path }

// GrowsFile is there while another node, whose name is in it, brings its messages into
// the cluster.
func (d *Dir) GrowsFile() string { return filepath.Join(d.path, growsName) }

// GrowingDir is for what is needed only while the store of this node is taken into a
// cluster. It is on the store's volume.
func (d *Dir) GrowingDir() string { return d.onStore(growingName) }

// KeptDir is for second directory entries of all blocks meanwhile.
func (d *Dir) KeptDir() string { return d.onStore(keptName) }

// onStore is a path on the store's volume that stays the same when accounts are added.
func (d *Dir) onStore(name string) string {
	made, err := filepath.Glob(filepath.Join(d.path, storeName, "*", name))
	if err == nil && len(made) > 0 {
		return made[0]
	}
	return filepath.Join(OnStore(d.path), name)
}

// ResolverDir returns the directory of nats-server's account resolver.
func (d *Dir) ResolverDir() string { return filepath.Join(d.path, resolverName) }

// TLSDir returns the directory of the own CA and its certificates.
func (d *Dir) TLSDir() string { return filepath.Join(d.path, tlsName) }

// RoutesDir returns the directory of the CA that the nodes of a cluster share, and of
// the certificate for its routes. MakeRoutesDir creates it.
func (d *Dir) RoutesDir() string { return filepath.Join(d.path, routesName) }

// InvitesFile returns where a node of a cluster keeps what it knows of its tokens.
func (d *Dir) InvitesFile() string { return filepath.Join(d.path, invitesName) }

// Socket returns the path of the admin socket.
func (d *Dir) Socket() string { return SocketPath(d.path) }

// SocketPath returns the path of the admin socket of the node that uses dir.
func SocketPath(dir string) string { return filepath.Join(dir, socketName) }

// StoredAccounts lists the accounts in the message store, by the names of
// their directories: the accounts that may have messages.
func (d *Dir) StoredAccounts() ([]string, error) { return storedAccounts(d.path) }

// Volume returns the sizes of the volume that holds the message store, which
// may be mounted below the data directory.
func (d *Dir) Volume() (Volume, error) { return VolumeOf(filepath.Join(d.path, storeName)) }

// validNodeName says whether nats-server and its logs can use the name.
func validNodeName(name string) bool {
	bad := func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) || r == unicode.ReplacementChar }
	return name != "" && len(name) <= 255 && !strings.ContainsFunc(name, bad)
}
