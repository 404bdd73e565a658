package httpapi

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi/stream"
)

// An identified is a log with an id.
type identified struct{ *runnel.Memory }

func (identified) LogID() string { return "this" }

// The data of a server may have been restored from a backup and have grown
// since. A client whose position belongs to the log from before the restore
// starts again at zero, even if the restored log has that position, too.
func TestPositionOfAnotherLogIsReset(t *testing.T) {
	timed(t, minute)
	s := serve(t, func(_ *Config, g *gateway.Config) { g.Log = identified{g.Log.(*runnel.Memory)} })
	id := s.create()
	s.events(id, s.prompt(id, "text"))
	for _, tt := range []struct {
		log, status string
		after       int64
		first       int64 // position of the first event that the client gets
	}{
		{"", "ok", 3, 4}, {"this", "ok", 3, 4}, {"another", "reset", 3, 1}, {"another", "ok", 0, 1},
	} {
		judge := func(way string, r *stream.Resume) {
			if r == nil || r.Status != tt.status || r.LogID != "this" || (r.Reason != "") != (tt.status == "reset") {
				t.Errorf("%+v by %s: %+v", tt, way, r)
			}
		}
		query := "/events?logId=" + tt.log
		res := s.get("/api/session/"+id+query, func(r *http.Request) { r.Header.Set("Last-Event-ID", fmt.Sprint(tt.after)) })
		r := bufio.NewReader(res.Body)
		f, err := readFrame(r)
		var open frame
		if err != nil || json.Unmarshal(f.data, &open) != nil {
			t.Fatalf("%s, %v", f.data, err)
		}
		judge("sse", open.Resume)
		if f, err := readFrame(r); err != nil || f.id != tt.first {
			t.Errorf("%+v by sse: began at %d, %v", tt, f.id, err)
		}
		res.Body.Close()
		for _, family := range []string{stream.FamilyEvents, stream.FamilyUpsert} {
			p := s.join(family)
			p.send(`{"type":"session:subscribe","sessionId":%q,"after":%d,"logId":%q}`, id, tt.after, tt.log)
			h := p.await("session:history")
			judge(family, h.Resume)
			if whole := strings.Contains(string(h.Entries[0]), `"text"`) || strings.Contains(string(h.Entries[0]), `"seq":1,`); whole != (tt.first == 1) {
				t.Errorf("%+v by %s: begins with %s", tt, family, h.Entries[0])
			}
			_ = p.conn.CloseNow()
		}
	}
	if f := s.turn(id, "text", "")[0]; !strings.Contains(string(f.data), `"resume":{"status":"ok","logId":"this"}`) {
		t.Errorf("a turn begins %s", f.data)
	}
}
