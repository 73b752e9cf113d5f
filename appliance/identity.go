// SPDX-License-Identifier: Apache-2.0

package appliance

import (
	"errors"
	"time"

	"github.com/holdfast-mq/holdfast/appliance/datadir"
	"github.com/holdfast-mq/holdfast/bootstrap/identity"
)

// ExportIdentity returns all keys and tokens, as a file to restore from.
// Whoever has it is everybody here.
func (a *Appliance) ExportIdentity() ([]byte, error) {
	a.log.Warn("identity exported: whoever has the copy is everybody on this node")
	return a.identity.Export()
}

// RestoreIdentity puts an exported identity into a data directory that no node
// runs on. It refuses one that does not know the accounts that have messages
// there, and, without force, to replace another identity.
func RestoreIdentity(dir string, data []byte, force bool, version string) (err error) {
	d, err := datadir.Open(dir, datadir.Options{Version: version, AllowUnsafe: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	stored, err := d.StoredAccounts()
	if err != nil {
		return err
	}
	return identity.Restore(identity.File{Path: d.IdentityFile(), Write: datadir.WriteFile, Now: time.Now}, data, stored, force)
}
