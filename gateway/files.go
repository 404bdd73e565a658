package gateway

import (
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

// uploadLife is how long an upload may wait to be sent with a prompt.
const uploadLife = 24 * time.Hour

func uploads(dataDir string) (*attach.Store, error) {
	if dataDir == "" {
		return nil, nil
	}
	files, err := attach.OpenStore(filepath.Join(dataDir, "uploads"))
	if err != nil {
		return nil, fmt.Errorf("upload folder: %w", err)
	}
	return files, nil
}

// Upload keeps a file that a client sent, for a prompt to come.
func (g *Gateway) Upload(r io.Reader, name string) (attach.Upload, error) {
	if g.files == nil {
		return attach.Upload{}, runnel.Fail(runnel.UnsupportedCapability, "this server keeps no uploads; attach files by their path")
	}
	return g.files.Save(r, name)
}

// pruneUploads removes what was never sent, or long ago.
func (g *Gateway) pruneUploads(now time.Time) {
	if g.files == nil {
		return
	}
	if err := g.files.Prune(now.Add(-uploadLife)); err != nil {
		g.log.Warn("old uploads not removed", slog.String("error", err.Error()))
	}
}

// input judges a prompt and its attachments. Where some of them cannot be used
// the agent is told so first, and the caller gets the same as a warning.
func (g *Gateway) input(p Prompt, dir string) (in runnel.Input, warning string, err error) {
	in = runnel.Input{Text: p.Text, Turn: uuid.NewString()}
	if len(p.Attachments) == 0 {
		if strings.TrimSpace(in.Text) == "" {
			return in, "", runnel.Fail(runnel.InvalidRequest, "content: the prompt is empty")
		}
		return in, "", nil
	}
	checked := attach.Checker{Roots: []string{dir}, Uploads: g.files}.Check(p.Attachments)
	if err := checked.Err(in.Text); err != nil {
		return in, "", err
	}
	if warning = checked.Warning(); warning != "" {
		in.Attachments = append(in.Attachments, runnel.Attachment{Name: "left out", MediaType: "text/plain", Text: warning})
	}
	in.Attachments = append(in.Attachments, checked.Attachments...)
	return in, warning, nil
}
