// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

const listenForTest = "HOLDFAST_TEST_LISTEN"

// Not a test: the process that has the port in TestPortHolderNamesTheProcess.
func TestListenUntilStdinEnds(t *testing.T) {
	addr := os.Getenv(listenForTest)
	if addr == "" {
		return
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	fmt.Println("listening", l.Addr())
	bufio.NewScanner(os.Stdin).Scan()
}

func TestPortHolderNamesTheProcess(t *testing.T) {
	for _, addr := range []string{"127.0.0.1:0", "0.0.0.0:0", "[::]:0"} {
		t.Run(addr, func(t *testing.T) {
			pid, port := listenElsewhere(t, addr)
			comm := filepath.Base(os.Args[0])
			if len(comm) > 15 {
				comm = comm[:15] // as much as the kernel keeps
			}
			want := fmt.Sprintf(" by process %d (%s)", pid, comm)
			if got := portHolder("127.0.0.1", port); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

func TestPortHolderKnowsItself(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	if got, want := portHolder("127.0.0.1", port), " by Holdfast itself"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := portHolder("127.0.0.9", port); got != "" {
		t.Errorf("got %q for another address, want nobody", got)
	}
}

func TestParseAddrReadsTheKernelsTable(t *testing.T) {
	for in, want := range map[string]string{
		"0100007F:107E":                         "127.0.0.1:4222",
		"00000000:1F90":                         "0.0.0.0:8080",
		"00000000000000000000000001000000:107E": "[::1]:4222",
	} {
		ip, port, ok := parseAddr(in)
		if got := net.JoinHostPort(ip.String(), port); !ok || got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
	if _, _, ok := parseAddr("zz:1"); ok {
		t.Error("got an address out of nothing")
	}
}

func listenElsewhere(t *testing.T, addr string) (pid int, port string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestListenUntilStdinEnds$", "-test.v")
	cmd.Env = append(os.Environ(), listenForTest+"="+addr)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		stdin.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the other process: %v", err)
		}
	})
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if at, ok := strings.CutPrefix(lines.Text(), "listening "); ok {
			_, port, err := net.SplitHostPort(at)
			if err != nil {
				t.Fatal(err)
			}
			return cmd.Process.Pid, port
		}
	}
	t.Fatal("the other process does not listen")
	return 0, ""
}
