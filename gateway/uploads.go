package gateway

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
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
	checked := attach.Checker{Roots: []string{dir}, Uploads: u.store, Accepts: accepts}.Check(p.Attachments)
	in.Attachments, in.Rejected = checked.Attachments, checked.Rejected
	return in, in.CheckRejected()
}
