package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/attach"
)

// uploadMaxAge is the age at which an upload is removed.
const uploadMaxAge = 24 * time.Hour

// uploads stores the files that clients upload, and checks the attachments of
// prompts.
type uploads struct {
	store *attach.Store // nil without a data directory
	log   *slog.Logger
}

func openUploads(dataDir string, log *slog.Logger) (*uploads, error) {
	if dataDir == "" {
		return &uploads{log: log}, nil
	}
	store, err := attach.OpenStore(filepath.Join(dataDir, "uploads"))
	if err != nil {
		return nil, fmt.Errorf("upload folder: %w", err)
	}
	return &uploads{store, log}, nil
}

func (u *uploads) close() {
	if u.store != nil {
		_ = u.store.Close()
	}
}

func (u *uploads) save(r io.Reader, name string) (attach.Upload, error) {
	if u.store == nil {
		return attach.Upload{}, runnel.Fail(runnel.UnsupportedCapability, "this server accepts no uploads; attach files by their path")
	}
	return u.store.Save(r, name)
}

// prune removes uploads that are older than uploadMaxAge, whether or not a
// prompt has used them.
func (u *uploads) prune(now time.Time) {
	if u.store == nil {
		return
	}
	if err := u.store.Prune(now.Add(-uploadMaxAge)); err != nil {
		u.log.Warn("old uploads not removed", slog.String("error", err.Error()))
	}
}

// used returns the ids of the uploads among refs.
func (u *uploads) used(refs []attach.Ref) (ids []string) {
	if u.store == nil {
		return nil
	}
	for _, ref := range refs {
		if id := u.store.IDOf(ref); id != "" {
			ids = append(ids, id)
		}
	}
	return ids
}

// maxKeptUploads is the maximum number of uploads that a session's record
// lists. An upload beyond it is removed by its age, not with the session.
const maxKeptUploads = 1000

// joined returns those of a session's uploads that still exist, followed by the
// uploads in used.
func (u *uploads) joined(all, used []string) []string {
	all = slices.DeleteFunc(slices.Clone(all), func(id string) bool {
		_, exists := u.store.Size(id)
		return !exists || slices.Contains(used, id)
	})
	slices.Sort(used)
	all = append(all, slices.Compact(used)...)
	return all[max(0, len(all)-maxKeptUploads):]
}

// sizes returns the sizes of those of the uploads that exist, in bytes.
func (u *uploads) sizes(ids []string) (out []int64) {
	if u.store == nil {
		return nil
	}
	for _, id := range ids {
		if size, ok := u.store.Size(id); ok {
			out = append(out, size)
		}
	}
	return out
}

// remove removes uploads. A missing upload is not an error.
func (u *uploads) remove(ids []string) (err error) {
	if u.store == nil {
		return nil
	}
	for _, id := range ids {
		err = errors.Join(err, u.store.Remove(id))
	}
	return err
}

// check checks a prompt and its attachments. The result contains the accepted
// attachments and the rejected ones; the session's agent may not accept all
// kinds. check returns an error if nothing is left to send.
func (u *uploads) check(ctx context.Context, p Prompt, s *runnel.Session, dir string) (in runnel.Input, err error) {
	in = runnel.Input{Text: p.Text, Turn: cmp.Or(p.TurnID, uuid.NewString())}
	if len(p.Attachments) == 0 {
		if strings.TrimSpace(in.Text) == "" {
			return in, runnel.Fail(runnel.InvalidRequest, "content: the prompt is empty")
		}
		return in, nil
	}
	accepts, err := s.Accepts(ctx)
	if err != nil {
		return in, err
	}
	checked := attach.Checker{Roots: []string{dir}, InPlace: true, Uploads: u.store, Accepts: accepts}.Check(p.Attachments)
	in.Attachments, in.Rejected = checked.Attachments, checked.Rejected
	return in, in.CheckRejected()
}
