package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/audit"
	"github.com/runnel-dev/runnel/event"
)

// age makes the sessions look as if they were last active some time ago. No
// gateway may be open.
func (d *disk) age(t *testing.T, ago time.Duration, ids ...string) {
	t.Helper()
	for _, id := range ids {
		rec, err := d.cat.Session(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		rec.CreatedAt, rec.LastActiveAt = time.Now().Add(-ago), time.Now().Add(-ago)
		if err := d.cat.PutSession(t.Context(), rec); err != nil {
			t.Fatal(err)
		}
	}
}

func expiredIDs(x Expiry) (ids []string) {
	for _, s := range x.Sessions {
		ids = append(ids, s.SessionID+" "+s.Reason)
	}
	return ids
}

func TestRetentionDeletesByAgeWhatThePreviewShows(t *testing.T) {
	d := newDisk(t)
	g := d.open(t)
	older, old, fresh, working := d.create(t, g), d.create(t, g), d.create(t, g), d.create(t, g)
	for _, id := range []string{older, old, fresh} {
		d.ends(t, send(t, g, id, "text"))
	}
	closeIt(t, g)
	d.age(t, 72*time.Hour, older)
	d.age(t, 48*time.Hour, old, working)
	g = d.open(t)
	defer closeIt(t, g)
	send(t, g, working, "hang")

	r := RetentionOf(g)
	var told []string
	r.OnDelete(func(id string) { told = append(told, id) })
	p := RetentionPolicy{Age: 24 * time.Hour}
	x, err := r.Preview(t.Context(), p)
	if want := []string{older + " age", old + " age"}; err != nil || !slices.Equal(expiredIDs(x), want) || x.Count != 2 || x.FreedBytes == 0 || x.FreedBytes >= x.StoredBytes {
		t.Errorf("preview: %+v, %v, want %q", x, err, want)
	}
	if _, err := g.Status(t.Context(), older); err != nil {
		t.Errorf("the preview deleted: %v", err)
	}
	done, err := r.Apply(t.Context(), p)
	if err != nil || !slices.Equal(expiredIDs(done), expiredIDs(x)) || done.FreedBytes != x.FreedBytes {
		t.Errorf("applied: %+v, %v", done, err)
	}
	for _, id := range []string{older, old} {
		_, err := g.Status(t.Context(), id)
		wantCode(t, err, runnel.SessionNotFound)
	}
	for _, id := range []string{fresh, working} {
		if _, err := g.Status(t.Context(), id); err != nil {
			t.Errorf("%s was deleted: %v", id, err)
		}
	}
	if !slices.Equal(told, []string{older, old}) {
		t.Errorf("OnDelete was called with %q", told)
	}
	if x, err := r.Apply(t.Context(), RetentionPolicy{}); err != nil || x.Count != 0 {
		t.Errorf("a policy without a bound deletes %+v, %v", x, err)
	}
}

// The policy deletes a session only if the deletion could be recorded.
func TestRetentionRecordsEachDeletionFirst(t *testing.T) {
	d := newDisk(t)
	g := d.open(t)
	ids := []string{d.create(t, g), d.create(t, g)}
	for _, id := range ids {
		d.ends(t, send(t, g, id, "text"))
	}
	closeIt(t, g)
	for i, id := range ids {
		d.age(t, time.Duration(10-i)*24*time.Hour, id)
	}
	var recorded []string
	full := errors.New("the disk is full")
	g = d.open(t, func(c *Config) {
		c.AuditDeletion = func(e audit.Record) error {
			if len(recorded) > 0 {
				return full
			}
			if _, err := d.cat.Session(context.WithoutCancel(t.Context()), e.Session); err != nil {
				t.Errorf("the session was deleted first: %v", err)
			}
			recorded = append(recorded, fmt.Sprint(e.Kind, e.By, e.Session, e.What))
			return nil
		}
	})
	defer closeIt(t, g)
	x, err := RetentionOf(g).Apply(t.Context(), RetentionPolicy{Age: time.Hour})
	if !errors.Is(err, full) || x.Count != 1 {
		t.Errorf("applied: %+v, %v", x, err)
	}
	if want := []string{fmt.Sprint(audit.SessionDeleted, event.ByPolicy, ids[0], "retention by age")}; !slices.Equal(recorded, want) {
		t.Errorf("recorded %q, want %q", recorded, want)
	}
	if _, err := g.Status(t.Context(), ids[1]); err != nil {
		t.Errorf("the session was deleted without an entry: %v", err)
	}
}

func TestRetentionDeletesOldestSessionsBySize(t *testing.T) {
	d := newDisk(t)
	g := d.open(t)
	ids := []string{d.create(t, g), d.create(t, g), d.create(t, g)}
	for _, id := range ids {
		d.ends(t, send(t, g, id, "text"))
	}
	closeIt(t, g)
	for i, id := range ids[:2] {
		d.age(t, time.Duration(10-i)*24*time.Hour, id)
	}
	g = d.open(t)
	defer closeIt(t, g)
	r := RetentionOf(g)
	all, err := r.Preview(t.Context(), RetentionPolicy{})
	if err != nil || all.StoredBytes == 0 {
		t.Fatalf("%+v, %v", all, err)
	}
	for _, tt := range []struct {
		bytes int64
		want  []string
	}{
		{all.StoredBytes, nil}, {all.StoredBytes - 1, []string{ids[0] + " size"}},
		{1, []string{ids[0] + " size", ids[1] + " size"}}, // the third was active in the last hour
	} {
		x, err := r.Preview(t.Context(), RetentionPolicy{Bytes: tt.bytes})
		if err != nil || !slices.Equal(expiredIDs(x), tt.want) {
			t.Errorf("%d bytes: %q, %v, want %q", tt.bytes, expiredIDs(x), err, tt.want)
		}
	}
}

// A session that is used after it was selected stays, with everything in it.
func TestRetentionSparesSessionUsedMeanwhile(t *testing.T) {
	d := newDisk(t)
	g := d.open(t)
	used, queued := d.create(t, g), d.create(t, g)
	closeIt(t, g)
	d.age(t, 48*time.Hour, used, queued)
	g = d.open(t)
	defer closeIt(t, g)
	r := RetentionOf(g)
	_, all, err := r.plan(t.Context(), RetentionPolicy{Age: time.Hour}, time.Now())
	if err != nil || len(all) != 2 {
		t.Fatalf("%+v, %v", all, err)
	}
	d.ends(t, send(t, g, used, "text"))
	send(t, g, queued, "hang")
	if _, err := g.Send(t.Context(), queued, Prompt{Text: "text", Queue: true}); err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		_, err := HousekeepingOf(g).deleteIf(t.Context(), s.SessionID, func() error { return r.stillExpired(t.Context(), s) })
		wantCode(t, err, runnel.TurnInProgress)
	}
	if st, err := g.Status(t.Context(), queued); err != nil || st.Queued != 1 || st.TurnID == "" {
		t.Errorf("%+v, %v", st, err)
	}
	if st, err := g.Status(t.Context(), used); err != nil || !strings.Contains(string(st.State), "open") {
		t.Errorf("%+v, %v", st, err)
	}
}
