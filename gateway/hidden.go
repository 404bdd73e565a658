package gateway

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/nofollow"
)

// HiddenFile is the name of the list of hidden conversations in the data
// directory. Each line is the reference of a conversation,
// cliType:agentSessionId. The newest line is the last one.
const HiddenFile = "conversations.hidden"

// maxHidden is the maximum number of hidden conversations. Beyond it, the oldest
// are no longer hidden.
const maxHidden = 100_000

// maxHiddenFile bounds the list, in bytes.
const maxHiddenFile = maxHidden * (event.MaxAgentSessionID + 100)

// hiddenList has the conversations whose sessions were deleted, so that neither
// the list of conversations nor the search shows them again from the agents' own
// files. Without a data directory, the list ends with the process.
type hiddenList struct {
	file string // "" without a data directory
	log  *slog.Logger

	mu   sync.Mutex // guards the rest, and the file
	refs []string   // oldest first
	has  map[string]bool
}

func openHidden(dataDir string, log *slog.Logger) (*hiddenList, error) {
	h := &hiddenList{log: log, has: make(map[string]bool)}
	if dataDir == "" {
		return h, nil
	}
	h.file = filepath.Join(dataDir, HiddenFile)
	var err error
	if h.refs, err = readHidden(h.file); err != nil {
		return nil, err
	}
	for _, ref := range h.refs {
		h.has[ref] = true
	}
	return h, nil
}

// readHidden returns the lines of a list. A missing file is an empty list.
func readHidden(file string) (refs []string, err error) {
	if _, err := os.Lstat(file); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	data, err := nofollow.ReadSmall(file, maxHiddenFile) // an agent can write in the data directory
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	for line := range bytes.Lines(data) {
		ref := strings.TrimSuffix(string(line), "\n")
		if _, id, ok := strings.Cut(ref, ":"); ok && id != "" && len(refs) < maxHidden {
			refs = append(refs, ref)
		}
	}
	return refs, nil
}

// HiddenConversations returns the hidden conversations in a data directory,
// which no server may use, as cliType:agentSessionId.
func HiddenConversations(dataDir string) (map[string]bool, error) {
	refs, err := readHidden(filepath.Join(dataDir, HiddenFile))
	hidden := make(map[string]bool, len(refs))
	for _, ref := range refs {
		hidden[ref] = true
	}
	return hidden, err
}

// set hides a conversation or shows it again. If the list cannot be stored, set
// logs that, and the change holds until the process ends: a deletion must be
// possible on a full disk.
func (h *hiddenList) set(cliType, id string, hide bool) {
	ref := cliType + ":" + id
	if id == "" || len(id) > event.MaxAgentSessionID || strings.ContainsAny(ref, "\r\n") {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.has[ref] == hide {
		return
	}
	h.refs = slices.DeleteFunc(h.refs, func(r string) bool { return r == ref })
	delete(h.has, ref)
	if hide {
		h.refs, h.has[ref] = append(h.refs, ref), true
	}
	for len(h.refs) > maxHidden {
		delete(h.has, h.refs[0])
		h.refs = h.refs[1:]
	}
	if err := h.write(); err != nil {
		h.log.Warn("the list of hidden conversations cannot be stored", slog.String("error", err.Error()))
	}
}

// write replaces the file; h.mu is held.
func (h *hiddenList) write() error {
	if h.file == "" {
		return nil
	}
	var b bytes.Buffer
	for _, ref := range h.refs {
		b.WriteString(ref + "\n")
	}
	part := h.file + ".tmp"
	err := os.WriteFile(part, b.Bytes(), 0o600)
	if err == nil {
		err = os.Rename(part, h.file)
	}
	if err != nil {
		return errors.Join(err, os.Remove(part))
	}
	return nil
}

// isHidden reports whether a conversation is hidden.
func (h *hiddenList) isHidden(ref string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.has[ref]
}
