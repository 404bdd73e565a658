package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/internal/termtext"
)

// unknownLine matches a line of GET /metrics that counts messages of an unknown
// type. No label contains a quote or a backslash.
var unknownLine = regexp.MustCompile(`(?m)^runnel_unknown_native_messages_total\{agent="([^"\\]*)",type="([^"\\]*)"\} (\S+)$`)

// examineProtocol lists the messages of agents that the running server did not
// understand.
func (a *app) examineProtocol(ctx context.Context, c config) (*diagnosis, error) {
	ad, err := connect(ctx, c)
	if errors.Is(err, errNoServer) {
		return nil, errStartServer
	}
	if err != nil {
		return nil, err
	}
	var metrics []byte
	if err := ad.get(ctx, "/metrics", &metrics); err != nil {
		return nil, err
	}
	d := &diagnosis{Status: fine}
	for _, m := range unknownLine.FindAllStringSubmatch(string(metrics), -1) {
		agent, typ, n := oneLine(termtext.Clean(m[1]), 80), oneLine(termtext.Clean(m[2]), 80), m[3]
		d.add(finding{"protocol", agent, warning, fmt.Sprintf("%s unknown messages of type %s since the server started", n, typ),
			"update runnel, or report the type and the agent's version; 'runnel sessions capture --on ID' keeps the messages of a session, without known secrets"})
	}
	unknown := len(d.Findings)
	kept, err := gateway.ReadUnknown(c.Data)
	if err != nil {
		d.add(finding{"protocol", "messages", warning, "the kept messages cannot be read: " + oneLine(termtext.Clean(err.Error()), 200), ""})
	}
	for _, m := range kept {
		d.add(finding{"protocol", oneLine(termtext.Clean(m.Agent), 80), fine, fmt.Sprintf("kept message of type %s, from session %s at %s: %s",
			oneLine(termtext.Clean(m.Type), 80), oneLine(termtext.Clean(m.SessionID), 80), m.At.Format(time.RFC3339), termtext.Clean(strings.TrimSpace(m.Line))), ""})
	}
	if unknown == 0 {
		d.add(finding{"protocol", "messages", fine, "the server has received no message of an unknown type since it started", ""})
	}
	return d, nil
}

// protocolHelp is the part of the help of doctor about --protocol.
var protocolHelp = strings.TrimSpace(`
With --protocol, the command only lists the types of messages of agents that the
running server has received and does not know. A new version of an agent may
have added them. Runnel skips such messages, and the turn continues. With the
setting keep-unknown, the server keeps the first messages of each type, and the
command prints them.`)
