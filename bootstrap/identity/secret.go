// SPDX-License-Identifier: Apache-2.0

package identity

import "log/slog"

const redacted = "[redacted]"

// Secret is the private half of a key. Printed, logged or marshalled it is
// "[redacted]"; Reveal returns the text.
type Secret struct {
	// A pointer, because fmt calls no methods on unexported fields and would
	// print a string in one, but never follows a pointer below the top.
	text *string
}

func newSecret(text []byte) Secret {
	s := string(text)
	return Secret{text: &s}
}

// Reveal returns the seed.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// String returns "[redacted]".
func (s Secret) String() string { return redacted }

// GoString returns "[redacted]".
func (s Secret) GoString() string { return redacted }

// LogValue returns "[redacted]".
func (s Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText returns "[redacted]".
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }
