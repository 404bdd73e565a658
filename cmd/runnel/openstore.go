package main

import (
	"context"
	"os"
	"path/filepath"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/store/sqlite"
)

// openStore opens a data directory that no server uses. It refuses a caller
// that an agent of one of this directory's sessions started: only the server
// could apply the session's permissions to such a caller.
func openStore(ctx context.Context, data string) (*sqlite.Store, error) {
	if err := refuseAgent(data); err != nil {
		return nil, err
	}
	return sqlite.Open(ctx, sqlite.Config{Dir: data})
}

// refuseAgent fails if an agent of a session in this data directory started
// this process. Agents of other data directories may use this one, for example
// an agent that works on runnel itself.
func refuseAgent(data string) error {
	for _, session := range auth.AncestorSessions() {
		if filepath.Base(session) != session {
			continue
		}
		if _, err := os.Lstat(filepath.Join(data, "run", session+".json")); err == nil {
			return runnel.Fail(runnel.Forbidden, "this process was started by an agent that works with this data directory; run the command yourself, in your own terminal")
		}
	}
	return nil
}
