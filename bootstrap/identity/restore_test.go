// SPDX-License-Identifier: Apache-2.0

package identity_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/holdfast-mq/holdfast/appliance/diag"
	"github.com/holdfast-mq/holdfast/bootstrap/identity"
)

func TestRestoreBringsBackWhatWasExported(t *testing.T) {
	id, f, _, _ := clocked(t)
	must(t, id.Rotate("shop", "packer", time.Hour))
	must(t, id.Revoke("shop", "checkout"))
	must(t, id.Forget("shop", "auditor"))
	data, err := id.Export()
	must(t, err)
	if onDisk, err := os.ReadFile(f.Path); err != nil || !bytes.Equal(data, onDisk) {
		t.Errorf("got an export that is not the file, and %v", err)
	}
	public, _ := id.PublicKey("shop")

	other, d := newFile(t)
	must(t, identity.Restore(other, data, []string{public, "no-account"}, false))
	back := open(t, other, public)
	if diff := cmp.Diff(id.Trust(), back.Trust()); diff != "" {
		t.Errorf("trust (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(id.List(), back.List()); diff != "" {
		t.Errorf("users (-want +got):\n%s", diff)
	}
	writes := d.writes
	must(t, identity.Restore(other, data, nil, false))
	if d.writes != writes {
		t.Errorf("got %d writes for what is there already, want none", d.writes-writes)
	}
}

func TestRestoreRefusesWhatWouldLoseSomething(t *testing.T) {
	id, f, d, _ := clocked(t)
	data, err := id.Export()
	must(t, err)
	apply(t, id, account("late", "u"))
	late, _ := id.PublicKey("late")
	now, err := os.ReadFile(f.Path)
	must(t, err)
	writes := d.writes

	wantFault(t, identity.Restore(f, data, nil, false), diag.CodeExists, false, "another identity")
	for _, force := range []bool{false, true} {
		wantFault(t, identity.Restore(f, data, []string{late}, force), diag.CodeIdentityGone, false, late)
		wantFault(t, identity.Restore(f, data[:len(data)/2], nil, force), diag.CodeIdentity, false, "truncated")
		wantFault(t, identity.Restore(f, bytes.Replace(data, []byte(`"shop"`), []byte(`"shoq"`), 1), nil, force), diag.CodeIdentity, false, "checksum")
	}
	if after, err := os.ReadFile(f.Path); err != nil || !bytes.Equal(now, after) || d.writes != writes {
		t.Errorf("got another file and %v, want the one that was there", err)
	}
	must(t, identity.Restore(f, data, nil, true))
	if _, ok := open(t, f).PublicKey("late"); ok {
		t.Error("got the later identity after a forced restore, want the older one")
	}
}

func TestRestoreReplacesADamagedFileOnlyWithForce(t *testing.T) {
	id, f, _, _ := clocked(t)
	data, err := id.Export()
	must(t, err)
	must(t, os.WriteFile(f.Path, data[:100], 0o600))
	wantFault(t, identity.Restore(f, data, nil, false), diag.CodeExists, false, "another identity")
	must(t, identity.Restore(f, data, nil, true))
	open(t, f)
}

func TestOpenReadsFormat1(t *testing.T) {
	old, err := os.ReadFile(filepath.Join("testdata", "format1.json"))
	must(t, err)
	f, d := newFile(t)
	must(t, os.WriteFile(f.Path, old, 0o600))
	id := open(t, f)
	trust := id.Trust()
	limited := account("shop", "auditor", "packer")
	limited.Limits.Streams = 5
	if got := apply(t, id, limited, account("line", "robot")); len(got.Made) != 0 || d.writes != 0 {
		t.Errorf("got %+v and %d writes, want no changes", got.Made, d.writes)
	}
	if len(trust.Preload) != 4 {
		t.Errorf("got %d tokens, want 4", len(trust.Preload))
	}
	for _, i := range id.List() {
		if i.Role != identity.RoleAdmin || i.State != identity.StateActive || !i.Created.IsZero() {
			t.Errorf("got %+v, want an active admin of an unknown age", i)
		}
		creds, err := id.Creds(i.Account, i.User)
		if err != nil {
			t.Errorf("creds of %s/%s: %v", i.Account, i.User, err)
		}
		if i.User == "packer" && !strings.Contains(string(creds), mustToken(t, id, "packer")) {
			t.Error("got credentials without the token")
		}
	}

	must(t, id.Forget("shop", "packer"))
	now, err := os.ReadFile(f.Path)
	must(t, err)
	var envelope struct{ Format int }
	if err := json.Unmarshal(now, &envelope); err != nil || envelope.Format != 2 {
		t.Errorf("got format %d and %v after a change, want 2", envelope.Format, err)
	}
	if diff := cmp.Diff(trust, open(t, f).Trust()); diff != "" {
		t.Errorf("tokens changed with the format:\n%s", diff)
	}
}
