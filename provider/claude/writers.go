package claude

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentconn"
)

// Bounds of the agent's registry of running processes, which other programs can
// write.
const (
	maxRegistered  = 4096     // directory entries that are read
	maxRegistryRow = 64 << 10 // bytes of a file that are read
)

// Writers implements [runnel.WriterFinder]. The agent (2.1.330) keeps a file
// sessions/PID.json for each of its running processes, in its configuration
// directory. A file that names another pid, or a process that has ended, is
// skipped.
func (p *Provider) Writers(ctx context.Context) (list []runnel.Writer, known bool) {
	if runtime.GOOS == "windows" {
		return nil, false
	}
	root, names, err := agentconn.ListFolder(filepath.Join(configDir(p.parent()), "sessions"), maxRegistered)
	if err != nil {
		return nil, false
	}
	defer root.Close()
	for _, name := range names {
		number, isRow := strings.CutSuffix(name, ".json")
		pid, err := strconv.Atoi(number)
		if !isRow || err != nil || ctx.Err() != nil {
			continue
		}
		if w, ok := registered(root, name, pid); ok {
			list = append(list, w)
		}
	}
	return list, true
}

// registered reads the file of one process.
func registered(root *os.Root, name string, pid int) (w runnel.Writer, ok bool) {
	f, _, err := openPlain(root, name)
	if err != nil {
		return w, false
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxRegistryRow))
	if err != nil {
		return w, false
	}
	var row struct {
		PID       int    `json:"pid"`
		SessionID string `json:"sessionId"`
		ProcStart string `json:"procStart"` // on Linux, as in /proc/PID/stat
	}
	if json.Unmarshal(data, &row) != nil || row.PID != pid || uuid.Validate(row.SessionID) != nil {
		return w, false
	}
	return agentconn.RunningWriter(row.SessionID, pid, row.ProcStart, runnel.WriterRegistry)
}

// Written implements [runnel.WriterFinder].
func (p *Provider) Written(_ context.Context, ref runnel.Conversation) (at time.Time) {
	root, err := agentconn.OpenFolder(p.projectsDir())
	if err != nil {
		return at
	}
	defer root.Close()
	name, err := lookup(root, ref)
	if err != nil {
		return at
	}
	for _, name := range append(otherFiles(root, name), name) {
		if st, err := root.Lstat(name); err == nil && st.Mode().IsRegular() && st.ModTime().After(at) {
			at = st.ModTime()
		}
	}
	return at
}
