// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// foreignShown is how many foreign files an error names.
const foreignShown = 3

// refuseUnstamped refuses a directory that has files but no stamp. It runs before
// the lock, so that not even a LOCK file is left in somebody else's directory,
// and again behind the lock, where the answer cannot change any more.
func refuseUnstamped(dir string) error {
	names, err := namesIn(dir)
	if err != nil {
		return err
	}
	// Looked up after the listing: another node that is just creating the
	// directory writes its stamp before everything else.
	if _, err := os.Stat(filepath.Join(dir, stampName)); err == nil {
		return nil
	}
	if err := refuseLostStamp(dir, names); err != nil {
		return err
	}
	return refuseForeign(dir, names)
}

func refuseLostStamp(dir string, names []string) error {
	stored, err := storedAccounts(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if name == identityName || (name == storeName && len(stored) > 0) {
			return diag.FailPermanently(diag.CodeStamp,
				fmt.Errorf("data directory %s holds %s but no %s file", dir, name, stampName),
				fmt.Sprintf("the node's name is lost with %s: restore the whole directory from a backup, "+
					"or set node.data_dir to an empty directory; a store that another nats-server wrote is not taken over", stampName))
		}
	}
	return nil
}

func refuseForeign(dir string, names []string) error {
	var foreign []string
	for _, name := range names {
		// An empty store is a volume somebody mounted there in advance.
		if name != lockName && name != lostAndFound && name != storeName && !isLeftover(name) {
			foreign = append(foreign, fmt.Sprintf("%q", name))
		}
	}
	if len(foreign) == 0 {
		return nil
	}
	shown := strings.Join(foreign[:min(len(foreign), foreignShown)], ", ")
	if more := len(foreign) - foreignShown; more > 0 {
		shown += fmt.Sprintf(" and %d more", more)
	}
	return diag.FailPermanently(diag.CodeForeignDir,
		fmt.Errorf("data directory %s holds files that Holdfast did not write: %s", dir, shown),
		"set node.data_dir to an empty directory of its own, or move those files away")
}

func namesIn(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, explain("list data directory", dir, err)
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}

func storedAccounts(dir string) ([]string, error) {
	store := filepath.Join(dir, storeName)
	entries, err := os.ReadDir(store)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, explain("list", store, err)
	}
	var accounts []string
	for _, e := range entries {
		if e.IsDir() && e.Name() != lostAndFound {
			accounts = append(accounts, e.Name())
		}
	}
	return accounts, nil
}

// removeLeftovers deletes files that WriteFile left when the power went: they
// may hold keys and nobody else will.
func removeLeftovers(dirs ...string) error {
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return explain("list", dir, err)
		}
		for _, e := range entries {
			if !isLeftover(e.Name()) || !e.Type().IsRegular() {
				continue
			}
			if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
				return explain("remove", filepath.Join(dir, e.Name()), err)
			}
		}
	}
	return nil
}

func isLeftover(name string) bool {
	return strings.HasPrefix(name, tempPrefix) && strings.HasSuffix(name, tempSuffix)
}
