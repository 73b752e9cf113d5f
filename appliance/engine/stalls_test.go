// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestCopiesThatTryInVainAreFound(t *testing.T) {
	for name, c := range map[string]struct {
		tries []int // seconds
		found []int
	}{
		"twice":                  {tries: []int{1, 5}},
		"until it works":         {tries: []int{1, 5, 9}},
		"every four seconds":     {tries: []int{1, 5, 9, 13, 17, 21, 25, 29}, found: []int{13, 29}},
		"now and then":           {tries: []int{1, 11, 21, 31, 41}},
		"two times, long apart":  {tries: []int{1, 5, 40, 44}},
		"goes on after a while":  {tries: []int{1, 5, 30, 34, 38, 42}, found: []int{42}},
		"something else is said": {},
	} {
		t.Run(name, func(t *testing.T) {
			now := time.Unix(1000, 0)
			s := newStalls(func() time.Time { return now })
			var found []int
			for second := range 60 {
				now = time.Unix(1000+int64(second), 0)
				if slices.Contains(c.tries, second) {
					s.warning("RAFT [fjFyEjc1 - S-R3F-O2hajaU9] Expected first catchup entry to be a snapshot and peerstate, will retry")
				}
				s.warning("RAFT [fjFyEjc1 - S-R3F-B14e43LL] Detected another leader with higher term, will stepdown")
				if due := s.due(); due["S-R3F-O2hajaU9"] {
					found = append(found, second)
				} else if len(due) > 0 {
					t.Errorf("got %v", due)
				}
			}
			if !slices.Equal(found, c.found) {
				t.Errorf("found after %v s, want %v", found, c.found)
			}
		})
	}
}

// TestTextOfACopyThatTriesInVain looks into the server's source: no test can bring it to
// say this at will.
func TestTextOfACopyThatTriesInVain(t *testing.T) {
	source := serverSource(t, "raft.go")
	for _, want := range []string{`n.warn("` + strings.TrimPrefix(textStalled, "] ") + `")`, `fmt.Sprintf("RAFT [%s - %s] %s", n.id, n.group, format)`} {
		if !strings.Contains(source, want) {
			t.Errorf("got a server that does not say %s any more, want another way to find copies that try in vain", want)
		}
	}
}

// serverSource is a file of the server, for texts that no test can have it say at will.
func serverSource(t *testing.T, file string) string {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/nats-io/nats-server/v2").Output()
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "server", file))
	if err != nil {
		t.Fatal(err)
	}
	return string(source)
}
