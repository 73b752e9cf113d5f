// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"

	"github.com/holdfast-mq/holdfast/appliance/acl"
	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/appliance/howto"
)

const redacted = "[redacted]"

// maxSecret bounds what is read from a secret file: the file may be a device.
const maxSecret = 64 << 10

// Secret is a value that cannot print itself. The file holds a reference,
// file:PATH; Reveal reads it.
type Secret struct {
	// ref is behind a pointer so that printing a struct that holds a Secret
	// without its methods (an unexported field) shows an address at most.
	ref *string
}

func (s *Secret) set(raw any) error {
	fix := "put it into a file of its own " + howto.Here().ClosedFile() + " and write file:PATH"
	text, ok := raw.(string)
	if !ok {
		return wrong("a secret is a reference to a file", fix)
	}
	if text == "" {
		s.ref = nil
		return nil
	}
	path, found := strings.CutPrefix(text, "file:")
	if !found || path == "" {
		return wrong("a secret can't stand in the configuration itself", fix)
	}
	s.ref = &path
	return nil
}

func (s *Secret) api() any   { return redacted }
func (*Secret) kind() string { return "secret" }

// IsSet reports whether the file names a secret.
func (s Secret) IsSet() bool { return s.ref != nil }

// Path is where the secret is kept, empty when none is set.
func (s Secret) Path() string {
	if s.ref == nil {
		return ""
	}
	return *s.ref
}

// Reveal reads the secret, without the line end. A file that others can read
// is refused with CodeSecretFile.
func (s Secret) Reveal() (string, error) {
	if s.ref == nil {
		return "", nil
	}
	path := *s.ref
	if err := checkSecretFile(path); err != nil {
		return "", err
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", secretFault(fmt.Errorf("read secret: %w", err), "let the user that runs holdfast read it, and check as that user")
	}
	text := strings.TrimRight(string(data), "\r\n")
	if text == "" {
		return "", secretFault(fmt.Errorf("read secret %s: the file is empty", path), "write the secret into it")
	}
	if strings.TrimSpace(text) == "" {
		return "", secretFault(fmt.Errorf("read secret %s: there is only white space in the file", path), "write the secret into it")
	}
	return text, nil
}

// checkSecretFile refuses a file that others can read or change; the
// permissions of systemd's credential directory are what protects files there.
func checkSecretFile(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return secretFault(fmt.Errorf("open secret %s: no such file", path), "make the file, "+howto.Here().ClosedFile()+", or correct the path")
	case err != nil:
		return secretFault(fmt.Errorf("open secret: %w", err), "let the user that runs holdfast read it")
	case !info.Mode().IsRegular():
		return secretFault(fmt.Errorf("open secret %s: not a regular file", path), "write the path of a file")
	case info.Size() > maxSecret:
		return secretFault(fmt.Errorf("open secret %s: larger than 64 KiB", path), "write the path of the right file")
	}
	if inCredentialsDirectory(path) {
		return nil
	}
	// On Windows it is the access list that says it, and a mode says nothing.
	switch who, err := acl.Readers(path); {
	case err != nil:
		return secretFault(fmt.Errorf("open secret: %w", err), "let the user that runs holdfast read it")
	case len(who) > 0:
		return secretFault(fmt.Errorf("open secret %s: %s may read it", path, strings.Join(who, ", ")), howto.Here().Close(path))
	case howto.Here() == howto.Windows:
		return nil
	}
	if mode := info.Mode().Perm(); mode&0o027 != 0 {
		return secretFault(fmt.Errorf("open secret %s: mode %04o lets others read or change it", path, mode),
			howto.Here().Close(path))
	}
	return nil
}

func inCredentialsDirectory(path string) bool {
	dir := os.Getenv("CREDENTIALS_DIRECTORY")
	return dir != "" && strings.HasPrefix(filepath.Clean(path), filepath.Clean(dir)+string(filepath.Separator))
}

func secretFault(err error, hint string) error {
	return diag.FailPermanently(diag.CodeSecretFile, err, hint)
}

// The methods below are every way Go's printers and encoders look at a value.

// String returns "[redacted]", as fmt asks for it.
func (Secret) String() string { return redacted }

// GoString returns "[redacted]", as %#v asks for it.
func (Secret) GoString() string { return redacted }

// LogValue returns "[redacted]", as slog asks for it.
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText returns "[redacted]", as text encoders ask for it.
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// MarshalJSON returns "[redacted]", as encoding/json asks for it.
func (Secret) MarshalJSON() ([]byte, error) { return []byte(`"` + redacted + `"`), nil }

// MarshalYAML returns "[redacted]", as yaml asks for it.
func (Secret) MarshalYAML() (any, error) { return redacted, nil }
