// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// Check reports whether the server would take these settings. It touches no
// file: the accounts are kept in memory, as the server makes the resolver's
// directory while it reads its configuration.
func Check(s Settings) error {
	if err := s.validate(); err != nil {
		return configFault(err)
	}
	s.ResolverDir = ""
	opts, err := options(s)
	if err != nil {
		return err
	}
	// Some rules, such as max_payload against max_pending, are looked at only
	// when a server is made. It is never started.
	srv, err := server.NewServer(opts)
	if err != nil {
		return configFault(err)
	}
	srv.Shutdown()
	return nil
}

// options turns the settings into the server's options by way of the
// configuration text: options put together by hand lose an account's JetStream
// limits (nats-server#6890).
func options(s Settings) (*server.Options, error) {
	text := Render(s)
	opts := &server.Options{}
	if err := opts.ProcessConfigString(text); err != nil {
		return nil, configFault(parseError(text, err))
	}
	// The server's signal handler would end the process.
	opts.NoSigs = true
	opts.NoLog = true
	opts.DisableJetStreamBanner = true
	// OpenClientPort opens it.
	opts.DontListen = true
	opts.LameDuckDuration = s.LameDuckDuration
	opts.LameDuckGracePeriod = s.LameDuckGrace
	setTLS(opts, s.TLS)
	setEncryption(opts, s.Encryption)
	setCluster(opts, s.Cluster)
	// A message that Holdfast passes on has a longer subject than its publisher gave it,
	// and what the server takes from one must not be too long from the other.
	opts.MaxControlLine = cmp.Or(opts.MaxControlLine, server.MAX_CONTROL_LINE_SIZE) + passedOn
	return opts, nil
}

// passedOn is what a subject may grow by when a message is passed on.
const passedOn = 512

// tlsTimeout is for a handshake. The server's own 2 s are short for a slow link.
const tlsTimeout = 5 * time.Second

func setTLS(opts *server.Options, c *tls.Config) {
	if c == nil {
		return
	}
	// The options TLS and TLSVerify are for the server's own command line: it goes
	// by this alone.
	opts.TLSConfig = c.Clone()
	opts.TLSTimeout = tlsTimeout.Seconds()
}

// parseError joins what the parser found and shows the rendered line in place of
// its number: nobody has the text in front of them. Warnings count: the server
// warns where it takes a value for something else.
func parseError(text string, err error) error {
	all := []error{err}
	var list interface {
		Errors() []error
		Warnings() []error
	}
	if errors.As(err, &list) {
		all = append(list.Errors(), list.Warnings()...)
	}
	lines := strings.Split(text, "\n")
	parts := make([]string, 0, len(all))
	for _, e := range all {
		part := e.Error()
		if m := regexp.MustCompile(`^:(\d+):\d+: `).FindStringSubmatch(part); m != nil {
			part = part[len(m[0]):]
			if n, err := strconv.Atoi(m[1]); err == nil && n >= 1 && n <= len(lines) {
				part = fmt.Sprintf("%s: %s", shorten(strings.TrimSpace(lines[n-1])), part)
			}
		}
		parts = append(parts, part)
	}
	return errors.New(strings.Join(parts, "; "))
}

// shorten keeps a JWT from filling the screen.
func shorten(s string) string {
	const most = 60
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}

func configFault(err error) error {
	return diag.FailPermanently(diag.CodeEngineConfig, fmt.Errorf("configure the engine: %w", err),
		"correct the key that is named; when it is none of yours, this is a bug in Holdfast worth reporting")
}
