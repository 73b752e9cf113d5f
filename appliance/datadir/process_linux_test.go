// SPDX-License-Identifier: Apache-2.0

package datadir

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/holdfast-mq/holdfast/appliance/diag"
)

func TestTheRefusalShowsTheVerbOfTheOtherProcess(t *testing.T) {
	path := newPath(t)
	owner, _ := startChild(t, order{Dir: path})
	wantFault(t, openErr(path, Options{}), diag.CodeLocked, false, pidWord(owner.PID)+" ("+filepath.Base(os.Args[0])+" run), since ")
}

func TestProcessNameShowsNoArgumentButAVerb(t *testing.T) {
	for _, arg := range []string{"--token=hunter2", "Hunter2", "hunter2", "/etc/x.yaml"} {
		cmd := childCommand("wait", arg)
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = in.Close()
			_ = cmd.Wait()
		})
		if _, err := out.Read(make([]byte, 1)); err != nil {
			t.Fatal(err)
		}
		name, alive := processName(cmd.Process.Pid)
		if want := " (" + filepath.Base(os.Args[0]) + ")"; name != want || !alive {
			t.Errorf("got %q, %t for argument %q, want %q, true", name, alive, arg, want)
		}
		if strings.Contains(name, "unter") {
			t.Errorf("got %q, want no secret", name)
		}
	}
}

func TestProcessNameKnowsTheDead(t *testing.T) {
	cmd := childCommand("wait")
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	if name, alive := processName(cmd.Process.Pid); name != "" || alive {
		t.Errorf("got %q, %t, want a dead process", name, alive)
	}
}
