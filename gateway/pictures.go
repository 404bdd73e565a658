package gateway

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"path/filepath"
	"slices"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/attach"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/pictures"
	"github.com/runnel-dev/runnel/store"
)

// PicturesFolder is the folder of the images of prompts, in the data directory.
const PicturesFolder = "pictures"

// sessionPictures stores the images of the prompts of all sessions.
type sessionPictures struct {
	store *pictures.Store // nil without a data directory
	log   *slog.Logger
}

func openPictures(dataDir string, log *slog.Logger) (*sessionPictures, error) {
	if dataDir == "" {
		return &sessionPictures{log: log}, nil
	}
	store, err := pictures.Open(filepath.Join(dataDir, PicturesFolder))
	if err != nil {
		return nil, fmt.Errorf("folder of pictures: %w", err)
	}
	return &sessionPictures{store, log}, nil
}

func (ps *sessionPictures) close() {
	if ps.store != nil {
		_ = ps.store.Close()
	}
}

// keep stores images for a session. Beyond the bounds of the store it stores
// none and logs that. It ignores images that a prompt could not have as an
// attachment: agents and imported files also contain images, and a browser may
// need gigabytes to show one of a few kilobytes. undo removes the images that
// the session did not have before; it is never nil.
func (ps *sessionPictures) keep(session string, images ...[]byte) (undo func(), err error) {
	undo = func() {}
	if ps.store == nil {
		return undo, nil
	}
	images = slices.DeleteFunc(slices.Clone(images), func(data []byte) bool {
		_, fits := attach.ImageType(data)
		return !fits
	})
	fresh, err := ps.store.Keep(session, images...)
	switch {
	case errors.Is(err, pictures.ErrLimit):
		ps.log.Warn("an image is not stored, because the session or the server has as many pictures as allowed", slog.String("session", session))
		return undo, nil
	case err != nil:
		return undo, runnel.Fail(runnel.StoreUnavailable, "the image cannot be stored; check the free disk space of the server", err)
	}
	return func() {
		if err := ps.store.Drop(session, fresh...); err != nil {
			ps.log.Warn("images of a rejected prompt not removed", slog.String("session", session), slog.String("error", err.Error()))
		}
	}, nil
}

// ofPrompt returns the runnel.Config.Pictures of a session.
func (ps *sessionPictures) ofPrompt(session string) func([][]byte) (func(), error) {
	return func(images [][]byte) (func(), error) { return ps.keep(session, images...) }
}

// A pictureReader stores the images of a conversation that is read for a
// session.
type pictureReader struct {
	ps      *sessionPictures
	session string
	err     error // the first error
}

func (ps *sessionPictures) reader(session string) *pictureReader {
	return &pictureReader{ps: ps, session: session}
}

// keep is a runnel.Conversation.Pictures.
func (r *pictureReader) keep(data []byte) {
	if r.err == nil {
		_, r.err = r.ps.keep(r.session, data)
	}
}

// checked yields events. After an error of keep it yields that error and stops.
func (r *pictureReader) checked(evs iter.Seq2[event.Event, error]) iter.Seq2[event.Event, error] {
	return func(yield func(event.Event, error) bool) {
		for ev, err := range evs {
			if r.err != nil {
				yield(event.Event{}, r.err)
				return
			}
			if !yield(ev, err) {
				return
			}
		}
	}
}

// share stores the pictures of a session for its copy, too.
func (ps *sessionPictures) share(from, to string) error {
	if ps.store == nil {
		return nil
	}
	if err := ps.store.Share(from, to); err != nil {
		return runnel.Fail(runnel.StoreUnavailable, "the images of the session cannot be stored; check the free disk space of the server", err)
	}
	return nil
}

// remove removes the pictures that only this session uses. It logs its own
// errors: the next start of the server removes what is left.
func (ps *sessionPictures) remove(session string) {
	if ps.store == nil {
		return
	}
	if err := ps.store.Remove(session); err != nil {
		ps.log.Warn("images of a deleted session not removed", slog.String("session", session), slog.String("error", err.Error()))
	}
}

// own returns the number of pictures that only this session uses, and their
// size in bytes.
func (ps *sessionPictures) own(session string) (n int, size int64) {
	if ps.store == nil {
		return 0, 0
	}
	return ps.store.Own(session)
}

// portion is [pictures.Store.Portion].
func (ps *sessionPictures) portion(session string) int64 {
	if ps.store == nil {
		return 0
	}
	return ps.store.Portion(session)
}

// sweep removes what an earlier process left: pictures of sessions that do not
// exist, and files that were not written completely.
func (ps *sessionPictures) sweep(ctx context.Context, catalogue store.Catalogue) {
	if ps.store == nil {
		return
	}
	err := ps.store.Sweep(func(session string) bool {
		_, err := catalogue.Session(ctx, session)
		return !errors.Is(err, store.ErrNotFound)
	})
	if err != nil {
		ps.log.Warn("unused images not removed", slog.String("error", err.Error()))
	}
}

// Pictures are the images of prompts.
type Pictures struct{ g *Gateway }

// PicturesOf returns the pictures of g.
func PicturesOf(g *Gateway) Pictures { return Pictures{g} }

// Read returns a picture of a session: an image that a prompt of the session
// contained. id is the picture of an event.Attachment. It returns ErrNoPicture
// if the server has not stored the picture.
func (p Pictures) Read(session, id string) ([]byte, error) {
	if p.g.pictures.store == nil {
		return nil, ErrNoPicture
	}
	data, err := p.g.pictures.store.Read(session, id)
	if err != nil {
		return nil, ErrNoPicture
	}
	return data, nil
}

// ErrNoPicture means that the server has not stored a picture.
var ErrNoPicture = errors.New("the server has not stored this picture for this session")
