// SPDX-License-Identifier: Apache-2.0

package main

import (
	"embed"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/template"

	"github.com/holdfast-mq/holdfast/appliance/admin"
	"github.com/holdfast-mq/holdfast/appliance/diag"
)

// snippets are programs that connect with the credentials of a user and do what
// its role is for. Each shows refused permissions, which look like a timeout
// to a program that does not listen for them.
//
//go:embed snippets/*.tmpl
var snippets embed.FS

func snippetLanguages() []string {
	return []string{"go", "node", "python", "java", "dotnet", "c", "cli"}
}

// snippet is what the templates know.
type snippet struct {
	admin.Login
	Creds   string // the file that the program reads; hides the secret of Login
	CAFile  string // empty without TLS
	Does    string // what the program does: publish, consume, look or connect
	Subject string // an example of a subject to publish to
	Stream  string // of the first consumer
	Name    string // of the first consumer
}

func writeSnippet(w io.Writer, language string, l admin.Login) error {
	if !slices.Contains(snippetLanguages(), language) {
		return diag.Fail(diag.CodeUsage, fmt.Errorf("there is no snippet in %q", language), "languages: "+strings.Join(snippetLanguages(), ", "))
	}
	t, err := template.ParseFS(snippets, "snippets/"+language+".tmpl")
	if err != nil {
		return fmt.Errorf("read snippet: %w", err)
	}
	s := snippet{Login: l, Creds: l.User + ".creds", Does: purpose(l)}
	if l.CA != "" {
		s.CAFile = "ca.crt"
	}
	if len(l.Subjects) > 0 {
		s.Subject = exampleSubject(l.Subjects[0])
	}
	if len(l.Consumers) > 0 {
		s.Stream, s.Name, _ = strings.Cut(l.Consumers[0], "/")
	}
	return t.Execute(w, s)
}

// purpose is what a user can do that shows something. An administrator of an
// account without streams can look; raw permissions may allow nothing that a
// stream stores.
func purpose(l admin.Login) string {
	switch {
	case len(l.Consumers) > 0:
		return "consume"
	case len(l.Subjects) > 0:
		return "publish"
	case l.Role == "observer" || l.Role == "admin":
		return "look"
	}
	return "connect"
}

// exampleSubject fills the wildcards of a subject.
func exampleSubject(subject string) string {
	tokens := strings.Split(subject, ".")
	for i, t := range tokens {
		if t == "*" || t == ">" {
			tokens[i] = "example"
		}
	}
	return strings.Join(tokens, ".")
}
