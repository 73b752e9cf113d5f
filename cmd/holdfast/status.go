// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/holdfast-mq/holdfast/appliance/admin"
)

// askTimeout bounds a question to the node: it answers within milliseconds
// unless it is in trouble.
const askTimeout = 20 * time.Second

func newStatusCmd(std stdio, g *globals) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show how the running node is [read-only]",
		Long: "Show how the running node is: listeners, durability, storage, streams and how far\n" +
			"each consumer is behind. Exit code 3 when the node is not ready, 1 when none answers.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := g.status(c.Context())
			if err != nil {
				return err
			}
			if g.json() {
				printJSON(std.out, s)
			} else {
				printStatus(std.out, s)
			}
			if !s.Ready {
				return exitError(exitNotReady)
			}
			return nil
		},
	}
}

// status asks the running node how it is.
func (g *globals) status(ctx context.Context) (admin.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	node, err := g.client()
	if err != nil {
		return admin.Status{}, err
	}
	return node.Status(ctx)
}

func printStatus(w io.Writer, s admin.Status) {
	state := "ready"
	if !s.Ready {
		state = "NOT READY (" + string(s.Phase) + ")"
	}
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	row := func(name, format string, args ...any) {
		fmt.Fprintf(t, "%s\t"+format+"\n", append([]any{name}, args...)...)
	}
	row("Node", "%s, %s, up %s, pid %d", s.Node.Name, state, since(s.Node.UptimeSeconds), s.Node.PID)
	for _, m := range s.Missing {
		row("Waits for", "%s", m)
	}
	row("Version", "holdfast %s, nats-server %s", s.Node.Version, s.Node.NATSVersion)
	row("Configuration", "%s (digest %s)", configText(s.Node), s.Node.ConfigDigest)
	if len(s.NeedRestart) > 0 {
		row("Needs a restart", "%s: what the file says is not in force before", strings.Join(s.NeedRestart, ", "))
	}
	if c := s.Cluster; c != nil {
		row("Cluster", "%s, %s; see `holdfast cluster status`", c.Name, clusterText(*c))
	}
	row("Data", "%s%s", s.Node.DataDir, fileSystemText(s.Storage))
	for _, l := range s.Listeners {
		closed := ""
		if !l.Open {
			closed = " (not open yet)"
		}
		row("Listens", "%s on %s%s", l.Name, l.Address, closed)
	}
	row("Durability", "%s%s", durabilityText(s.Durability), flushText(s.Storage.FlushSeconds))
	if s.Phase == admin.PhaseJoining && s.Storage.Limit == 0 {
		// There is no store yet, and no client: figures of them would be made up.
		row("Storage", "%snothing is opened before the node has joined its cluster", freeText(s.Storage))
		t.Flush()
		printStanding(w, s.Problems)
		return
	}
	if e := s.Storage.Encryption; e != nil {
		done := ""
		if e.PreviousKey {
			done = "; storage.encryption.previous_key is not needed any more, take it out of the file"
		}
		row("Encryption", "%s%s", e.Cipher, done)
	}
	for i, line := range groupLines(s.Accounts) {
		name := ""
		if i == 0 {
			name = "Group commit"
		}
		row(name, "%s", line)
	}
	for i, line := range storageLines(s.Storage) {
		name := ""
		if i == 0 {
			name = "Storage"
		}
		row(name, "%s", line)
	}
	for i, d := range s.Damage {
		name := ""
		if i == 0 {
			name = "DAMAGE"
		}
		row(name, "%s %s; found %s", d.Stream, d.Lost, d.Found.Local().Format(time.DateTime))
	}
	if slices.ContainsFunc(s.Damage, func(d admin.Damage) bool { return d.Open }) {
		row("", "not mended yet, and the server may cut it off there: `holdfast verify --mend`, or a restart, keeps everything else")
	}
	if len(s.Damage) > 0 {
		row("", "the files as they were are in %s/quarantine; remove it when you have seen this", s.Node.DataDir)
	}
	row("Verified", "%s", verifiedText(s.Verify, time.Now()))
	if r := s.Recovery; r != nil {
		row("Recovery", "%s", recoveryText(*r))
	}
	row("Clients", "%d connected, %s messages in, %s out", s.Traffic.Connections, humanize.Comma(s.Traffic.InMsgs), humanize.Comma(s.Traffic.OutMsgs))
	t.Flush()
	printStreams(w, s.Accounts)
	printSecurity(w, s)
	printStanding(w, s.Problems)
}

// printStreams prints a table of streams, a row for each consumer, and below it
// what has no numbers: a short row would put the columns out of line.
func printStreams(w io.Writer, accounts []admin.AccountStatus) {
	var rows, notes []string
	for _, a := range accounts {
		switch {
		case a.Unavailable != "":
			notes = append(notes, fmt.Sprintf("%s: not readable: %s", a.Name, a.Unavailable))
		case len(a.Streams) == 0:
			notes = append(notes, a.Name+": no streams")
		}
		for _, s := range a.Streams {
			r, n := streamRows(a.Name+"/"+s.Name, s)
			rows, notes = append(rows, r...), append(notes, n...)
		}
	}
	if len(rows)+len(notes) > 0 {
		fmt.Fprintln(w)
	}
	if len(rows) > 0 {
		t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
		fmt.Fprintln(t, "STREAM\tMESSAGES\tBYTES\tLIMIT\tGROUPED\tCONSUMER\tLAG\tACK PENDING\tREDELIVERED\tOLDEST UNACKED")
		for _, r := range rows {
			fmt.Fprintln(t, r)
		}
		t.Flush()
	}
	for _, n := range notes {
		fmt.Fprintln(w, n)
	}
}

func streamRows(path string, s admin.StreamStatus) (rows, notes []string) {
	messages, size := humanize.Comma(int64(s.Messages)), sizeText(int64(s.Bytes))
	limit := limitText(s)
	if s.Unavailable != "" {
		messages, size, limit = "?", "?", "?"
		notes = append(notes, path+": not readable: "+s.Unavailable)
	}
	if s.LostMsgs > 0 {
		notes = append(notes, fmt.Sprintf("%s: %d messages LOST: their files are damaged", path, s.LostMsgs))
	}
	head := path + notInFile(s.InFile) + "\t" + messages + "\t" + size + "\t" + limit + "\t" + yesNo(s.GroupCommit.On)
	for _, c := range s.Consumers {
		counts := fmt.Sprintf("%s\t%d\t%d\t%s", humanize.Comma(int64(c.Lag)), c.NumAckPending, c.NumRedelivered, oldestText(c))
		if c.Unavailable != "" {
			counts = "?\t?\t?\t?"
			notes = append(notes, path+"/"+c.Name+": not readable: "+c.Unavailable)
		}
		rows = append(rows, head+"\t"+c.Name+notInFile(c.InFile)+"\t"+counts)
		head = "\t\t\t\t"
	}
	if len(rows) == 0 {
		rows = append(rows, head+"\t-\t-\t-\t-\t-")
	}
	return rows, notes
}

func printStanding(w io.Writer, problems []admin.Problem) {
	for i, p := range problems {
		if i == 0 {
			fmt.Fprintln(w)
		}
		at := ""
		if p.Where != "" {
			at = p.Where + ": "
		}
		fmt.Fprintf(w, "%s: %s%s [%s]\n  fix: %s\n", p.Severity, at, p.What, p.Code, p.Fix)
	}
}

func fileSystemText(s admin.Storage) string {
	if s.FileSystem == "" {
		return ""
	}
	return " (" + s.FileSystem + ")"
}

// freeText is what is free on a volume that could be looked at.
func freeText(s admin.Storage) string {
	if s.VolumeTotal == 0 {
		return ""
	}
	return sizeText(s.VolumeFree) + " free on the volume; "
}

func notInFile(in bool) string {
	if in {
		return ""
	}
	return " *"
}

func configText(n admin.NodeStatus) string {
	if len(n.ConfigFiles) == 0 {
		return "built-in starter"
	}
	return strings.Join(n.ConfigFiles, ", ")
}

func durabilityText(d admin.Durability) string {
	if d.Mode == "strict" {
		return "strict: fsync before each acknowledgement"
	}
	return fmt.Sprintf("%s: fsync every %v; a power cut loses what was acknowledged since", d.Mode,
		time.Duration(d.SyncIntervalSeconds*float64(time.Second)))
}

func limitText(s admin.StreamStatus) string {
	if s.MaxBytes < 0 {
		return "none"
	}
	return sizeText(s.MaxBytes)
}

func oldestText(c admin.ConsumerStatus) string {
	if c.OldestUnacknowledged == nil {
		return "-"
	}
	return since(*c.OldestUnacknowledged)
}

// since prints seconds as a person would say them.
func since(seconds float64) string {
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case d >= 48*time.Hour:
		return strconv.Itoa(int(d.Hours()/24)) + "d"
	case d >= time.Minute:
		return d.Round(time.Second).String()
	}
	return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + "s"
}

func sizeText(n int64) string {
	if n < 0 {
		return "unlimited"
	}
	return humanize.IBytes(uint64(n))
}
