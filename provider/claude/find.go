package claude

import (
	"cmp"
	"context"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/agentconn"
)

// Find implements [runnel.Finder]. It finds a conversation by file name in the
// folder of each directory, and reads only its files.
func (p *Provider) Find(ctx context.Context, id string) (runnel.Conversation, error) {
	if uuid.Validate(id) != nil {
		return runnel.Conversation{}, notStored(nil)
	}
	root, err := agentconn.OpenFolder(p.projectsDir())
	if err != nil {
		return runnel.Conversation{}, notStored(err)
	}
	defer root.Close()
	var found []runnel.Conversation // one for each file
	folders := make(map[string]bool)
	for _, name := range inFolders(root, id+".jsonl") {
		if ctx.Err() != nil {
			return runnel.Conversation{}, ctx.Err()
		}
		st, err := root.Lstat(name)
		if err != nil || !st.Mode().IsRegular() {
			continue
		}
		c := runnel.Conversation{AgentSessionID: id, File: filepath.Join(root.Name(), filepath.FromSlash(name)), Size: st.Size(), UpdatedAt: st.ModTime()}
		if describe(root.Name(), &c) {
			found = append(found, c)
			folders[path.Dir(name)] = true
		}
	}
	if len(found) == 0 {
		return runnel.Conversation{}, notStored(nil)
	}
	slices.SortStableFunc(found, newest)
	c := found[0]
	for _, older := range found[1:] {
		c.Older = append(c.Older, older.File)
	}
	c.StoredFor = func(dir string) bool { return folders[slug(dir)] } // entries may name other directories
	return c, nil
}

// newest compares two stored conversations, so that a sort puts the newest
// change first.
func newest(a, b runnel.Conversation) int {
	return cmp.Or(b.UpdatedAt.Compare(a.UpdatedAt), strings.Compare(a.File, b.File))
}
