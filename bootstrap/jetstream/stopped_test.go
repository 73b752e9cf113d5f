// SPDX-License-Identifier: Apache-2.0

package jetstream_test

import (
	"strings"
	"testing"

	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/bootstrap"
	"github.com/holdfast-mq/holdfast/bootstrap/jetstream"
)

// TestRefusalWhileNothingIsStoredSaysSo has the server refuse for want of storage: it
// does so for any change while publishing is stopped, and its own words lead elsewhere.
func TestRefusalWhileNothingIsStoredSaysSo(t *testing.T) {
	c := newClient(t, startNode(t, "shop"))
	why := ""
	order := jetstream.Order{
		Consents: bootstrap.Consents{Confirmed: true, Allow: []string{"shop/OLD"}},
		Stopped:  func() string { return why },
	}
	apply := func(text string) bootstrap.Result {
		t.Helper()
		want := shop(stream(t, "OLD", text))
		report := c.Execute(t.Context(), bootstrap.Diff(want, observe(t, c, "shop"), nil), order)
		return report.Results[len(report.Results)-1]
	}
	if r := apply(`{"subjects":["old"],"max_bytes":1000000}`); r.Err != nil {
		t.Fatal(r.Err)
	}
	const tooLarge = `{"subjects":["old"],"max_bytes":1000000000000000000}`
	if r := apply(tooLarge); r.Err == nil || strings.Contains(r.Err.Error(), "nothing is stored") || !strings.Contains(diag.Hint(r.Err), "storage.limit") {
		t.Errorf("got %v with hint %q, want the server's own reason", r.Err, diag.Hint(r.Err))
	}
	why = "the disk is full"
	if r := apply(tooLarge); r.Err == nil || !strings.Contains(r.Err.Error(), "update stream \"OLD\"") || !strings.Contains(r.Err.Error(), "neither made nor changed: the disk is full") ||
		!strings.Contains(diag.Hint(r.Err), "make room") {
		t.Errorf("got %v with hint %q, want why and what to do", r.Err, diag.Hint(r.Err))
	}
	if r := apply(`{"subjects":["old"],"max_bytes":1000000,"storage":"memory"}`); r.Action.Op != bootstrap.Recreate || r.Err == nil ||
		!strings.Contains(r.Err.Error(), "the disk is full") || !strings.Contains(diag.Hint(r.Err), "make room") {
		t.Errorf("got %s and %v, want no copy begun", r.Action.Op, r.Err)
	}
}
