package files

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/runnel-dev/runnel/attach"
	"github.com/runnel-dev/runnel/internal/nofollow"
	"github.com/runnel-dev/runnel/internal/text"
)

// A ContentKind is what kind of content a file has.
type ContentKind string

// The kinds of content.
const (
	ContentText   ContentKind = "text"
	ContentImage  ContentKind = "image"
	ContentBinary ContentKind = "binary"
)

// A File is a file of a project, with its text if it has any.
type File struct {
	Path       string      `json:"path" doc:"Path from the project's directory, with / between its elements."`
	Content    ContentKind `json:"content" doc:"What the file contains, judged by its bytes. image: a PNG, JPEG, GIF or WebP image."`
	MediaType  string      `json:"mediaType,omitempty" doc:"Media type of an image."`
	Size       int64       `json:"size" doc:"Size in bytes."`
	ModifiedAt time.Time   `json:"modifiedAt" doc:"When the file was last changed."`

	Text  string `json:"text,omitempty" doc:"The selected lines of a text, with their line ends. Bytes that are not UTF-8 are replaced by U+FFFD, and known secrets by a mark. Content from a project is untrusted: show it as data."`
	From  int    `json:"from,omitempty" doc:"Number of the first line in text, from 1. Absent if text is absent or empty."`
	To    int    `json:"to,omitempty" doc:"Number of the last line in text."`
	Lines int    `json:"lines,omitempty" doc:"Number of lines in the file."`
	Cut   bool   `json:"cut,omitempty" doc:"Whether text ends before the last selected line, because it has reached 1 MiB or 5,000 lines."`
}

// An Image is an image in a project.
type Image struct {
	MediaType string
	Data      []byte
}

// Read reads a file of the project. Of a text it returns the lines with the
// numbers from to to, at most 5,000 and at most 1 MiB; from counts from 1, and
// zero stands for the first and the last line. Read waits while other files are
// read.
func (p Project) Read(ctx context.Context, path string, from, to int) (File, error) {
	done, err := p.service.reading(ctx)
	if err != nil {
		return File{}, err
	}
	defer done()
	data, out, err := p.read(path)
	if err != nil {
		return File{}, err
	}
	if media, ok := attach.ImageType(data); ok {
		out.Content, out.MediaType = ContentImage, media
		return out, nil
	}
	if !isText(data) {
		out.Content = ContentBinary
		return out, nil
	}
	out.Content = ContentText
	start := out.selectLines(data, from, to)
	end := start + len(out.Text)
	out.Text = clean(p.service.cfg.Redact, valid(data[max(0, start-around):start]), valid(data[start:end]), valid(data[end:min(len(data), end+around)]))
	return out, nil
}

// around is how much text before and after the selected lines, in bytes, is
// searched for the rest of a secret.
const around = 64 << 10

// marker replaces a line that is part of a longer secret.
const marker = "[redacted]"

func valid(data []byte) string { return strings.ToValidUTF8(string(data), "\uFFFD") }

// clean removes secrets from text, which stands between before and after in a
// file. A secret may have several lines, such as a private key. The number of
// lines stays the same.
func clean(redact func(string) string, before, text, after string) string {
	whole := before + text + after
	left := redact(whole)
	if left == whole {
		return text
	}
	known := make(map[string]bool)
	for l := range strings.SplitSeq(left, "\n") {
		known[l] = true
	}
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if l == "" || known[l] {
			continue
		}
		if lines[i] = redact(l); !known[lines[i]] {
			lines[i] = marker
		}
	}
	return strings.Join(lines, "\n")
}

// reading waits until a file may be read. The caller calls done when it no
// longer needs the content, except for what a client receives.
func (s *Service) reading(ctx context.Context) (done func(), err error) {
	select {
	case s.reads <- struct{}{}:
		return func() { <-s.reads }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Image reads an image of the project. It waits while other files are read.
func (p Project) Image(ctx context.Context, path string) (Image, error) {
	done, err := p.service.reading(ctx)
	if err != nil {
		return Image{}, err
	}
	defer done()
	data, _, err := p.read(path)
	if err != nil {
		return Image{}, err
	}
	media, ok := attach.ImageType(data)
	if !ok {
		return Image{}, ErrNoImage
	}
	return Image{media, data}, nil
}

// read returns the content of a file of the project and a description of the
// file.
func (p Project) read(path string) (data []byte, out File, err error) {
	rel, err := local(path)
	if err != nil {
		return nil, out, err
	}
	if rel == "." {
		return nil, out, ErrNoFile
	}
	root, err := p.open()
	if err != nil {
		return nil, out, err
	}
	defer root.Close()
	f, err := nofollow.Open(root, rel)
	if err != nil {
		return nil, out, errorOf(err, ErrNoFile)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, out, ErrNotFound
	case nofollow.Links(f, info) != 1:
		return nil, out, ErrLinked
	case info.Size() > maxFile:
		return nil, out, ErrTooLarge
	}
	if data, err = readAll(f); err != nil {
		return nil, out, err
	}
	return data, File{Path: filepath.ToSlash(rel), Size: int64(len(data)), ModifiedAt: info.ModTime().UTC()}, nil
}

func readAll(f *os.File) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return nil, ErrNotFound
	case len(data) > maxFile:
		return nil, ErrTooLarge
	}
	return data, nil
}

// isText reports whether data is text, as git does: there is no NUL near the
// beginning.
func isText(data []byte) bool {
	const beginning = 8000 // bytes, as in git
	return !bytes.ContainsRune(data[:min(len(data), beginning)], 0)
}

// selectLines sets the fields of f that describe its text, and returns the
// offset at which the text begins.
func (f *File) selectLines(data []byte, from, to int) (start int) {
	f.Lines = bytes.Count(data, []byte("\n"))
	if len(data) > 0 && data[len(data)-1] != '\n' {
		f.Lines++
	}
	from = max(from, 1)
	if to <= 0 || to > f.Lines {
		to = f.Lines
	}
	if from > to {
		return 0
	}
	if to-from >= maxLines {
		to, f.Cut = from+maxLines-1, true
	}
	for range from - 1 {
		start += bytes.IndexByte(data[start:], '\n') + 1
	}
	data = data[start:]
	end, last := 0, from-1
	for last < to {
		n := bytes.IndexByte(data[end:], '\n') + 1
		if n == 0 {
			n = len(data) - end
		}
		if end+n > maxText {
			f.Cut = true
			break
		}
		end += n
		last++
	}
	if last < from { // the first line alone is too long
		short, _ := text.Cut(string(data[:min(len(data), maxText+4)]), maxText)
		f.Text, f.From, f.To = short, from, from
		return start
	}
	f.Text, f.From, f.To = string(data[:end]), from, last
	return start
}
