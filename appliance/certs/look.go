// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"fmt"
	"path/filepath"
)

// LookAuto reads the certificates of a node's own CA, the server's first, and
// changes nothing: one that is due is issued by the node itself. A file that is not
// there, as before the first start, gives an error that is fs.ErrNotExist.
func LookAuto(dir string) ([]Info, error) {
	var infos []Info
	for _, f := range []struct{ name, file string }{{Server, serverFile}, {CA, caCopy}} {
		path := filepath.Join(dir, f.file)
		data, err := readFile(path)
		if err != nil {
			return nil, fmt.Errorf("read certificate: %w", err)
		}
		found, err := parseCertificates(data)
		if err != nil {
			return nil, fmt.Errorf("read certificate %s: %w", path, err)
		}
		infos = append(infos, newInfo(f.name, found[0], path))
	}
	return infos, nil
}
