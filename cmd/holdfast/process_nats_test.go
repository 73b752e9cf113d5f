// SPDX-License-Identifier: Apache-2.0

//go:build process && linux

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

func TestProcessDocumentedNATSCommandsWorkWithoutATerminal(t *testing.T) {
	t.Parallel()
	n := newNode(t, shop)
	// Of some other server; they must not lead elsewhere.
	n.env = []string{"NATS_URL=nats://127.0.0.1:1", "NATS_CREDS=/nowhere", "NATS_CONTEXT=other", "NATS_USER=other"}
	n.start()
	n.nats([]string{"Stream LOG was created"}, "stream", "add", "LOG", "--subjects", "log.*", "--storage", "file", "--retention", "limits", "--max-msgs=-1", "--max-bytes=-1")
	n.nats([]string{"log.*", "File", "Limits"}, "stream", "info", "LOG")
	n.nats([]string{"log-processor"}, "consumer", "add", "LOG", "log-processor", "--pull", "--ack", "explicit", "--deliver", "all")
	n.nats([]string{"log-processor", "Explicit"}, "consumer", "info", "LOG", "log-processor")
	n.nats([]string{"Published 11 bytes"}, "pub", "log.new", "Order #1234")
	n.nats([]string{"Order #1234", "Acknowledged message"}, "consumer", "next", "LOG", "log-processor")
	s, err := n.status()
	if err != nil {
		t.Fatal(err)
	}
	n.nats([]string{s.Node.Name}, "server", "report", "jetstream")
	n.nats([]string{"msgs/sec"}, "bench", "pub", "bench.x", "--msgs", "100", "--no-progress")
	n.nats([]string{"msgs/sec"}, "bench", "js", "pub", "sync", "bench.y", "--create", "--maxbytes", "10MB", "--msgs", "20", "--no-progress")

	code, out := n.holdfast("nats", "--config", "holdfast.yaml", "stream", "info", "NOWHERE")
	if code != exitFailed || !strings.Contains(out, "could not pick a Stream") {
		t.Errorf("got exit code %d and %q, want 1 and that there is no such stream", code, out)
	}
	code, out = n.holdfast("nats", "--config", "holdfast.yaml", "pub", "--jetstream", "lgo.new", "a slip")
	if code != exitFailed || !strings.Contains(out, "holdfast: nats: no responders") || !strings.Contains(out, "hint: no stream takes this subject") {
		t.Errorf("got exit code %d and %q, want 1 and that no stream takes it", code, out)
	}
	code, out = n.holdfast("nats", "--config", "holdfast.yaml", "--account", "nobody", "stream", "ls")
	if code != exitFailed || !strings.Contains(out, "hint: there are: shop") {
		t.Errorf("got exit code %d and %q, want 1 and the accounts there are", code, out)
	}
	n.stop()
}

func TestProcessKeepsSecretsOffTheCommandLineAndTheEnvironment(t *testing.T) {
	t.Parallel()
	n := newNode(t, shop).start()
	cmd := n.command("nats", "--config", "holdfast.yaml", "sub", "quiet.>")
	out := &output{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }()
	eventually(t, patience, func() error {
		if s, err := n.status(); err != nil || s.Traffic.Connections != 1 {
			return errors.Join(err, fmt.Errorf("got %d connections, want the subscriber\n%s", s.Traffic.Connections, out))
		}
		return nil
	})
	for _, pid := range []int{cmd.Process.Pid, n.cmd.Process.Pid} {
		for _, name := range []string{"cmdline", "environ"} {
			b, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), name))
			if err != nil {
				t.Fatal(err)
			}
			if seed.Match(b) || strings.Contains(string(b), "eyJ") {
				t.Errorf("got a secret in the %s of process %d, want none", name, pid)
			}
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-ended
	checkOutput(t, out.String())
	n.stop()
}

func publish(t *testing.T, js jetstream.JetStream, subject, text string, o ...jetstream.PublishOpt) *jetstream.PubAck {
	t.Helper()
	ack, err := js.Publish(t.Context(), subject, []byte(text), o...)
	if err != nil {
		t.Fatalf("publish %q: %v", text, err)
	}
	return ack
}

// next fetches one message; it waits for it.
func next(t *testing.T, c jetstream.Consumer) jetstream.Msg {
	t.Helper()
	m, err := c.Next(jetstream.FetchMaxWait(patience))
	if err != nil {
		t.Fatalf("fetch: %v", err)
	}
	return m
}

func consumer(t *testing.T, js jetstream.JetStream, stream, name string) jetstream.Consumer {
	t.Helper()
	c, err := js.Consumer(t.Context(), stream, name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func messages(t *testing.T, js jetstream.JetStream, stream string) uint64 {
	t.Helper()
	s, err := js.Stream(t.Context(), stream)
	if err != nil {
		t.Fatal(err)
	}
	info, err := s.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return info.State.Msgs
}

func TestProcessKeepsMessagesForAConsumerThatIsAway(t *testing.T) {
	t.Parallel()
	n := newNode(t, shop).start()
	publish(t, n.jetStream(), "orders.new", "while you were away")
	n.stop()
	n.start()
	m := next(t, consumer(t, n.jetStream(), "ORDERS", "audit"))
	if string(m.Data()) != "while you were away" {
		t.Errorf("got %q, want what was published before the restart", m.Data())
	}
	n.stop()
}

func TestProcessDeliversAgainToAnotherWorkerAfterAckWait(t *testing.T) {
	t.Parallel()
	n := newNode(t, shop).start()
	publish(t, n.jetStream(), "jobs.a", "a job")
	began := time.Now()
	first := next(t, consumer(t, n.jetStream(), "JOBS", "worker"))
	second := next(t, consumer(t, n.jetStream(), "JOBS", "worker"))
	meta, err := second.Metadata()
	if err != nil {
		t.Fatal(err)
	}
	if string(second.Data()) != string(first.Data()) || meta.NumDelivered != 2 {
		t.Errorf("got %q, delivery %d, want the first worker's message a second time", second.Data(), meta.NumDelivered)
	}
	if took := time.Since(began); took < time.Second {
		t.Errorf("got the second delivery after %v, want it after ack_wait (1s)", took)
	}
	n.stop()
}

func TestProcessWorkQueueDeletesOnAcknowledgement(t *testing.T) {
	t.Parallel()
	n := newNode(t, shop).start()
	js := n.jetStream()
	publish(t, js, "jobs.a", "a job")
	publish(t, js, "orders.a", "an order")
	for _, c := range []jetstream.Consumer{consumer(t, js, "JOBS", "worker"), consumer(t, js, "ORDERS", "audit")} {
		if err := next(t, c).DoubleAck(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, patience, func() error {
		if got := messages(t, js, "JOBS"); got != 0 {
			return fmt.Errorf("got %d messages in the work queue after the acknowledgement, want 0", got)
		}
		return nil
	})
	if got := messages(t, js, "ORDERS"); got != 1 {
		t.Errorf("got %d messages in the log after the acknowledgement, want 1", got)
	}
	n.stop()
}

func TestProcessStoresADuplicateIDOnce(t *testing.T) {
	t.Parallel()
	n := newNode(t, shop).start()
	first := publish(t, n.jetStream(), "orders.new", "once", jetstream.WithMsgID("id-1"))
	n.kill9()
	n.start() // the window holds over a crash
	js := n.jetStream()
	again := publish(t, js, "orders.new", "once", jetstream.WithMsgID("id-1"))
	if !again.Duplicate || again.Sequence != first.Sequence {
		t.Errorf("got duplicate %t, sequence %d, want true and the first's %d", again.Duplicate, again.Sequence, first.Sequence)
	}
	if got := messages(t, js, "ORDERS"); got != 1 {
		t.Errorf("got %d messages, want 1", got)
	}
	n.stop()
}

func TestProcessServesTheOlderClientAPI(t *testing.T) {
	t.Parallel()
	n := newNode(t, shop).start()
	js, err := n.connect().JetStream(nats.MaxWait(patience))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish("jobs.old", []byte("old")); err != nil {
		t.Fatal(err)
	}
	sub, err := js.PullSubscribe("", "", nats.Bind("JOBS", "worker"))
	if err != nil {
		t.Fatal(err)
	}
	msgs, err := sub.Fetch(1, nats.MaxWait(patience))
	if err != nil || len(msgs) != 1 || string(msgs[0].Data) != "old" {
		t.Fatalf("got %v, %v, want the message", msgs, err)
	}
	if err := msgs[0].AckSync(); err != nil {
		t.Fatal(err)
	}
	n.stop()
}

func TestProcessRefusesClientsWithoutCredentials(t *testing.T) {
	t.Parallel()
	n := newNode(t, shop).start()
	_, err := nats.Connect("nats://"+n.address("client"), nats.Timeout(patience))
	if !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("got %v, want an authorization error", err)
	}
	n.stop()
}
