package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/private"
	"github.com/runnel-dev/runnel/internal/text"
	"github.com/runnel-dev/runnel/store"
)

// UnknownFile is the name, in the data directory, of the file of kept messages:
// one [UnknownMessage] on each line.
const UnknownFile = "unknown-messages.jsonl"

// MaxKeepUnknown is the greatest value of Config.KeepUnknown.
const MaxKeepUnknown = 20

// Bounds of the kept messages.
const (
	maxUnknown     = 500 // of all agents
	maxUnknownLine = 4 << 10
	maxUnknownFile = 8 << 20
)

// An UnknownMessage is a message of an agent whose type the agent's provider
// does not know.
type UnknownMessage struct {
	Agent     string    `json:"agent"`
	Type      string    `json:"type"`
	SessionID string    `json:"sessionId"`
	At        time.Time `json:"at"`
	Line      string    `json:"line"` // without known secrets; the first 4 KiB
}

// unknowns keeps the first messages of each unknown type in a file, if the
// configuration asks for it. Its methods are safe for concurrent use.
type unknowns struct {
	path string // "" if nothing is kept
	keep int    // messages of each type
	log  *slog.Logger

	mu     sync.Mutex
	list   []UnknownMessage
	failed bool // the file could not be written, which was logged
}

// openUnknowns reads the messages that an earlier process kept, or deletes them
// if the configuration keeps none.
func openUnknowns(cfg Config) *unknowns {
	u := &unknowns{keep: cfg.KeepUnknown, log: cfg.Logger}
	if cfg.DataDir == "" {
		return u
	}
	path := filepath.Join(cfg.DataDir, UnknownFile)
	if u.keep <= 0 {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			u.log.Warn("the kept messages of unknown types cannot be deleted", "error", err)
		}
		return u
	}
	u.path = path
	list, err := ReadUnknown(cfg.DataDir)
	if err != nil {
		u.log.Warn("the kept messages of unknown types cannot be read; new ones replace them", "error", err)
	}
	u.list = list[:min(len(list), maxUnknown)]
	return u
}

// ReadUnknown returns the messages that the server of a data directory has kept.
func ReadUnknown(dataDir string) (list []UnknownMessage, err error) {
	data, err := private.ReadFile(filepath.Join(dataDir, UnknownFile), private.Nothing, maxUnknownFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for line := range bytes.Lines(data) {
		var m UnknownMessage
		if err := json.Unmarshal(line, &m); err != nil {
			return list, fmt.Errorf("%s: %w", UnknownFile, err)
		}
		list = append(list, m)
	}
	return list, nil
}

// equip returns opt with a function that keeps messages of a session.
func (u *unknowns) equip(opt runnel.Options, agent, id string) runnel.Options {
	if u.path == "" {
		return opt
	}
	filter := &tapFilter{filter: sync.OnceValue(func() runnel.Filter {
		if opt.Filter == nil {
			return nil
		}
		return opt.Filter(opt)
	})}
	opt.Unknown = func(typ string, line []byte) { u.take(agent, typ, id, func() []byte { return filter.line(line) }) }
	return opt
}

// take keeps a message unless enough of its type are kept.
func (u *unknowns) take(agent, typ, id string, redacted func() []byte) {
	if !u.wants(agent, typ) {
		return
	}
	line, _ := text.Cut(strings.ToValidUTF8(string(redacted()), "\ufffd"), maxUnknownLine)
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.room(agent, typ) {
		u.list = append(u.list, UnknownMessage{agent, typ, id, time.Now().UTC(), line})
		_ = u.save() // it logs its error
	}
}

func (u *unknowns) wants(agent, typ string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.room(agent, typ)
}

// room reports whether another message of a type may be kept. mu is held.
func (u *unknowns) room(agent, typ string) bool {
	n := 0
	for _, m := range u.list {
		if m.Agent == agent && m.Type == typ {
			n++
		}
	}
	return n < u.keep && len(u.list) < maxUnknown
}

// remove removes the messages of a deleted session.
func (u *unknowns) remove(id string) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	n := len(u.list)
	u.list = slices.DeleteFunc(u.list, func(m UnknownMessage) bool { return m.SessionID == id })
	if len(u.list) == n {
		return nil
	}
	if err := u.save(); err != nil {
		return runnel.Fail(runnel.StoreUnavailable, "the kept messages of the session cannot be deleted; see the server's log", err)
	}
	return nil
}

// prune removes the messages of sessions that no longer exist. A crash can leave
// such messages.
func (u *unknowns) prune(ctx context.Context, catalogue store.Catalogue) {
	u.mu.Lock()
	list := slices.Clone(u.list)
	u.mu.Unlock()
	for _, m := range list {
		if _, err := catalogue.Session(ctx, m.SessionID); errors.Is(err, store.ErrNotFound) {
			_ = u.remove(m.SessionID) // it logs its error
		}
	}
}

// save replaces the file. It logs its first error. mu is held.
func (u *unknowns) save() error {
	var data bytes.Buffer
	enc := json.NewEncoder(&data)
	for _, m := range u.list {
		_ = enc.Encode(m) // it consists of strings and a time
	}
	unfinished := u.path + ".tmp" // only this process writes it
	err := os.Remove(unfinished)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		err = writeNew(unfinished, data.Bytes())
	}
	if err == nil {
		err = os.Rename(unfinished, u.path)
	}
	if err != nil && !u.failed {
		u.failed = true
		u.log.Warn("messages of unknown types cannot be kept", "error", err)
	}
	return err
}

// writeNew writes a file that only the user can read. It leaves no file after
// an error.
func writeNew(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}
