package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"image/color"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi/command"
	"github.com/runnel-dev/runnel/httpapi/stream"
)

// TestTurnOnFullDisk fills the disk in the middle of a turn. The turn ends with
// the reason, its recorded part can be read, and the next prompt succeeds as
// soon as there is space.
func TestTurnOnFullDisk(t *testing.T) {
	timed(t, minute)
	disk := smallDisk(t)
	edit, st := onDisk(t, filepath.Join(disk, "data"))
	t.Cleanup(func() { _ = st.Close() })
	s := serve(t, edit)
	id := s.create()
	text, _ := json.Marshal(strings.Repeat("slowly ", 10000))
	turn := s.prompt(id, fmt.Sprintf(`{"steps":[{"text":%s,"rate":100}]}`, text))
	shown := int64(0)
	for ev, err := range runnel.Follow(t.Context(), st, id, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if is[event.ItemDelta](ev) && ev.Turn == turn {
			shown = ev.Seq
			break
		}
	}
	filler := filepath.Join(disk, "filler")
	fill(t, filler)

	evs := s.whole(id, turn)
	end := evs[len(evs)-1]
	if b, ok := end.Body.(event.ResponseError); !ok || b.Error.Code != string(runnel.StoreUnavailable) {
		t.Errorf("the turn ended %+v", end.Body)
	}
	if end.Seq <= shown || len(evs) < int(shown) {
		t.Errorf("%d events, %d had been shown", len(evs), shown)
	}
	items := call[stream.ItemsAnswer](s.rig, "GET", "/api/session/"+id+"/items", "", 200)
	if len(items.Items) == 0 {
		t.Error("nothing can be read")
	}
	status := call[gateway.Status](s.rig, "GET", "/api/session/"+id+"/status", "", 200)
	if status.LastSeq != end.Seq || status.Activity != event.ActivityIdle {
		t.Errorf("status %+v", status)
	}
	if w := s.do("POST", "/api/session/"+id+"/send", `{"content":"text"}`); w.Code != 503 || code(w) != string(runnel.StoreUnavailable) {
		t.Errorf("a prompt on a full disk: %d %s", w.Code, w.Body)
	}

	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	again := s.prompt(id, "text")
	evs = s.whole(id, again)
	if b, ok := evs[len(evs)-1].Body.(event.ResponseDone); !ok || b.Status != event.StatusCompleted {
		t.Errorf("with space again the turn ended %+v", evs[len(evs)-1].Body)
	}
	for i, ev := range evs {
		if ev.Seq != int64(i)+1 {
			t.Fatalf("event %d has position %d", i+1, ev.Seq)
		}
	}
}

// fill writes to path until the disk is full.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if !errors.Is(err, unix.ENOSPC) {
		t.Fatal(err)
	}
}

// A prompt whose image does not fit on the disk is rejected, and leaves neither
// a part of the image nor a part of the turn.
func TestImageOnFullDiskIsRefused(t *testing.T) {
	timed(t, minute)
	disk := smallDisk(t)
	edit, st := onDisk(t, filepath.Join(disk, "data"))
	t.Cleanup(func() { _ = st.Close() })
	s := serve(t, edit)
	id := s.create()
	red := pngOf(t, color.White) + strings.Repeat("x", 256<<10)
	body := s.withUpload(red)
	before := call[gateway.Status](s.rig, "GET", "/api/session/"+id+"/status", "", 200)
	filler := filepath.Join(disk, "filler")
	fill(t, filler)
	if w := s.do("POST", "/api/session/"+id+"/send", body); w.Code != 503 || code(w) != string(runnel.StoreUnavailable) {
		t.Errorf("an image on a full disk: %d %s", w.Code, w.Body)
	}
	if got := s.stored(); len(got) != 0 {
		t.Errorf("left behind: %v", got)
	}
	if now := call[gateway.Status](s.rig, "GET", "/api/session/"+id+"/status", "", 200); now.LastSeq != before.LastSeq || now.Activity != event.ActivityIdle {
		t.Errorf("status %+v", now)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	turn := call[command.SendAnswer](s.rig, "POST", "/api/session/"+id+"/send", body, 202).TurnID
	a := attachmentOf(t, s.whole(id, turn), turn)
	if _, got := s.picture(id, a.Picture, 200); got != red {
		t.Error("with space again the picture differs")
	}
}

// smallDisk mounts a disk of 8 MiB and returns its directory.
func smallDisk(t *testing.T) string {
	t.Helper()
	disk := t.TempDir()
	if err := unix.Mount("tmpfs", disk, "tmpfs", 0, "size=8m,mode=0700"); err != nil {
		t.Skipf("a disk that can be filled needs the right to mount one: %v", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(disk, 0); err != nil {
			t.Error(err)
		}
	})
	return disk
}
