// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
)

// Stamp is what a data directory says of itself.
type Stamp struct {
	Format    int
	WrittenBy string // the version of Holdfast that opened it last
	NodeName  string
}

// Look returns the stamp of a directory, and the error with which Open would refuse
// what is in it. It changes nothing and takes no lock, so that it can look at a
// directory in use. A directory that is new, or not there, has no stamp and is no error.
func Look(path, nodeName string) (Stamp, error) {
	exists, err := findDir(path)
	if err != nil || !exists {
		return Stamp{}, err
	}
	if err := refuseUnstamped(path); err != nil {
		return Stamp{}, err
	}
	s, err := readStamp(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Stamp{}, nil
	}
	if err == nil {
		err = s.checkName(path, nodeName)
	}
	if err == nil {
		err = (&Dir{path: path}).refuseLostStore()
	}
	return Stamp{Format: s.Format, WrittenBy: s.WrittenBy, NodeName: s.NodeName}, err
}

// StoredAccounts lists the accounts in the message store of a directory that need not be
// open, nor exist.
func StoredAccounts(path string) ([]string, error) { return storedAccounts(path) }

// IdentityPath returns where the node that uses dir keeps its identity.
func IdentityPath(dir string) string { return filepath.Join(dir, identityName) }

// RoutesPath returns where the node that uses dir keeps the certificates of its routes.
func RoutesPath(dir string) string { return (&Dir{path: dir}).RoutesDir() }

// LockPath returns the file that a node locks to keep others out of dir.
func LockPath(dir string) string { return filepath.Join(dir, lockName) }

// Secrets lists the files and directories of dir that nobody but the node may read.
func Secrets(dir string) []string {
	return []string{filepath.Join(dir, identityName), filepath.Join(dir, credsName), filepath.Join(dir, tlsName), filepath.Join(dir, resolverName)}
}

// Place says why a place would lose messages (Open refuses it), and what else to
// know about it. The path need not exist.
func Place(path string) (hazards, cautions []string, err error) {
	if temp := tempDirAbove(path); temp != "" {
		hazards = append(hazards, fmt.Sprintf("it is below %s, which the system cleans at boot or by age", temp))
	}
	// The store may be a mount or a link of its own.
	for _, p := range []string{path, filepath.Join(path, storeName)} {
		v, err := VolumeOf(p)
		if errors.Is(err, errors.ErrUnsupported) {
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		if h := hazardOf(v.FSType); h != "" && !slices.Contains(hazards, h) {
			hazards = append(hazards, h)
		}
		if c := cautionOf(v.FSType); c != "" && !slices.Contains(cautions, c) {
			cautions = append(cautions, c)
		}
	}
	return hazards, cautions, nil
}
