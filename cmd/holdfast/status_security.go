// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/holdfast-mq/holdfast/appliance/admin"
)

// printSecurity prints the certificates, and who was refused what.
func printSecurity(w io.Writer, s admin.Status) {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	for i, c := range s.Certificates {
		if i == 0 {
			fmt.Fprintln(t, "\nCERTIFICATE\tENDS\tFILE")
		}
		fmt.Fprintf(t, "%s\t%s\t%s\n", c.Name, c.NotAfter.Format(time.DateOnly), c.Path)
	}
	t.Flush()
	for i, r := range s.Refusals {
		if i == 0 {
			fmt.Fprintln(t, "\nREFUSED\tREASON\tTIMES\tLAST\tEXAMPLE")
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", whoText(r), r.Reason, humanize.Comma(int64(r.Count)), r.Last.Local().Format(time.DateTime), r.Example)
	}
	t.Flush()
}

// whoText names a user that was refused, as far as it is known.
func whoText(r admin.Refusal) string {
	if r.Account == "" {
		return cmp.Or(r.User, "(unknown)")
	}
	return r.Account + "/" + cmp.Or(r.User, "(unknown)")
}
