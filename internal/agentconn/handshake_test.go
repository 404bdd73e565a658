package agentconn

import (
	"strings"
	"testing"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// told makes a notice of every line, which it counts as a message that means
// nothing and as two lines that cannot be decoded.
type told struct {
	Translator
	lines *int
}

func (tr told) Printed(line []byte, at time.Time) ([]event.Event, []any) {
	*tr.lines++
	return []event.Event{{At: at, Body: event.Notice{Level: event.LevelInfo, Code: "LINE", Message: string(line)}}}, nil
}

func (told) Gone() []event.Event { return nil }

func (tr told) Skipped() (messages, lines int) { return *tr.lines, 2 * *tr.lines }

// listen starts a script and reads until something is wrong.
func listen(t *testing.T, script string, starts time.Duration) (*Conn, error) {
	t.Helper()
	sh, err := Find("sh", Agent{}, runnel.Options{})
	if err != nil {
		t.Skip("there is no shell")
	}
	c, err := Start(t.Context(), Command{Path: sh, Args: []string{"-c", script}, Env: []string{"PATH=/usr/bin:/bin"}}, Agent{Name: "It"}, told{lines: new(int)}, runnel.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	c.starts = starts
	return c, c.Handshake(t.Context(), func(next func() ([]byte, error)) error {
		for {
			if _, err := next(); err != nil {
				return err
			}
		}
	})
}

// An agent that never gets ready cannot fill the memory.
func TestHandshakeOutputIsBounded(t *testing.T) {
	_, err := listen(t, `l=$(head -c 4000000 /dev/zero | tr '\0' a); while :; do echo "\"$l\""; done`, time.Minute)
	if runnel.CodeOf(err) != runnel.ProtocolError {
		t.Errorf("got %v", err)
	}
}

// The event of a line takes more memory than a short line.
func TestShortLinesOfAHandshakeAreBounded(t *testing.T) {
	c, err := listen(t, `yes | head -c 1000000; exec sleep 600`, time.Minute)
	if runnel.CodeOf(err) != runnel.ProtocolError {
		t.Errorf("got %v", err)
	}
	if most := maxStart / eventSize; len(c.ready) > most+1 {
		t.Errorf("%d events wait, want at most %d", len(c.ready), most)
	}
}

func TestTooLongLineOfHandshakeIsReportedAndCounted(t *testing.T) {
	c, _ := listen(t, `head -c 17000000 /dev/zero | tr '\0' a; echo; echo '{}'`, time.Minute)
	ev, err := c.Next(t.Context())
	if b, ok := ev.Body.(event.Notice); err != nil || !ok || b.Code != "LINE_TOO_LONG" {
		t.Errorf("got %+v, %v", ev, err)
	}
	if lines, messages := c.counts.Lines.Load(), c.counts.Messages.Load(); lines != 3 || messages != 1 {
		t.Errorf("counted %d lines and %d messages", lines, messages)
	}
}

// An agent that says nothing is not waited for for ever.
func TestHandshakeTimesOut(t *testing.T) {
	c, err := listen(t, `exec sleep 600`, 50*time.Millisecond)
	if runnel.CodeOf(err) != runnel.Timeout || !strings.Contains(err.Error(), "was not ready after 50ms") {
		t.Errorf("got %v", err)
	}
	if _, ended := c.ExitStatus(); !ended {
		t.Error("it runs on")
	}
}
