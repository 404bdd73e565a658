package agentconn

import (
	"strings"
	"testing"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
)

// lineNotices is a translator that emits a notice for each line. It counts each
// line as one message without a meaning and as two undecodable lines.
type lineNotices struct {
	Translator
	lines *int
}

func (tr lineNotices) Printed(line []byte, at time.Time) ([]event.Event, []any) {
	*tr.lines++
	return []event.Event{{At: at, Body: event.Notice{Level: event.LevelInfo, Code: "LINE", Message: string(line)}}}, nil
}

func (lineNotices) Flush() []event.Event { return nil }

func (tr lineNotices) Skipped() (messages, lines int) { return *tr.lines, 2 * *tr.lines }

func (lineNotices) Unknown() []string { return []string{"line"} }

// enough is a limit for handshakes that do not reach it: on a busy machine, the
// race detector takes minutes for the output that a handshake may have.
const enough = 5 * time.Minute

// runHandshake starts a shell script as an agent, and reads its lines in a
// handshake until an error occurs.
func runHandshake(t *testing.T, script string, starts time.Duration) (*Conn, error) {
	t.Helper()
	sh, err := Find("sh", Agent{}, runnel.Options{})
	if err != nil {
		t.Skip("sh is not installed")
	}
	c, err := Start(t.Context(), Command{Path: sh, Args: []string{"-c", script}, Env: []string{"PATH=/usr/bin:/bin"}}, Agent{Name: "Agent"}, lineNotices{lines: new(int)}, runnel.Options{Dir: t.TempDir()})
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

// An agent that prints without end before it is ready must not fill the memory.
func TestHandshakeOutputIsBounded(t *testing.T) {
	_, err := runHandshake(t, `l=$(head -c 4000000 /dev/zero | tr '\0' a); while :; do echo "\"$l\""; done`, enough)
	if runnel.CodeOf(err) != runnel.ProtocolError {
		t.Errorf("got %v", err)
	}
}

// Short lines take less memory than their events, so events are bounded too.
func TestShortLinesOfAHandshakeAreBounded(t *testing.T) {
	c, err := runHandshake(t, `yes | head -c 1000000; exec sleep 600`, enough)
	if runnel.CodeOf(err) != runnel.ProtocolError {
		t.Errorf("got %v", err)
	}
	if most := maxStart / eventSize; len(c.ready) > most+1 {
		t.Errorf("%d events wait, want at most %d", len(c.ready), most)
	}
}

func TestTooLongLineOfHandshakeIsReportedAndCounted(t *testing.T) {
	c, _ := runHandshake(t, `head -c 17000000 /dev/zero | tr '\0' a; echo; echo '{}'`, enough)
	ev, err := c.Next(t.Context())
	if b, ok := ev.Body.(event.Notice); err != nil || !ok || b.Code != "LINE_TOO_LONG" {
		t.Errorf("got %+v, %v", ev, err)
	}
	if lines, messages := c.counts.Lines.Load(), c.counts.Messages.Load(); lines != 3 || messages != 1 {
		t.Errorf("counted %d lines and %d messages", lines, messages)
	}
	if unknown := c.counts.Unknown(); len(unknown) != 1 || unknown["line"] != 1 {
		t.Errorf("counted unknown types %v", unknown)
	}
}

// An agent that prints nothing makes the handshake time out.
func TestHandshakeTimesOut(t *testing.T) {
	c, err := runHandshake(t, `exec sleep 600`, 50*time.Millisecond)
	if runnel.CodeOf(err) != runnel.Timeout || !strings.Contains(err.Error(), "was not ready after 50ms") {
		t.Errorf("got %v", err)
	}
	if _, ended := c.ExitStatus(); !ended {
		t.Error("the agent is still running")
	}
}
