package claude

import (
	"bytes"
	"context"
	"image"
	_ "image/gif" // decodes
	"image/jpeg"
	"image/png"
	"slices"
	"strings"

	"golang.org/x/image/draw"
	_ "golang.org/x/image/webp" // decodes

	"github.com/runnel-dev/runnel"
)

const (
	// maxSide is what the agent lets pass, in pixels. A larger image it makes
	// smaller itself, in seconds on 2.1.197, and tells the model of it.
	maxSide = 2000
	// refusedSide is what the model API refuses.
	refusedSide = 8000
	// maxPixels bounds the images that are unpacked: at most 12 bytes each, for
	// a progressive JPEG. What is larger goes as it is.
	maxPixels = 16 << 20
	// maxImage is how large an image may be once it is packed again, in bytes;
	// the API takes 5 MB of base64.
	maxImage = 3 << 20
)

// Prepare implements [runnel.Preparer]: images are made as small as the agent
// would make them, so that what it keeps is what was sent.
func (p *Provider) Prepare(ctx context.Context, in runnel.Input) (runnel.Input, error) {
	in.Attachments = slices.Clone(in.Attachments)
	for i, a := range in.Attachments {
		if !strings.HasPrefix(a.MediaType, "image/") {
			continue
		}
		if err := ctx.Err(); err != nil {
			return in, err
		}
		small, err := scaled(a)
		if err != nil {
			return in, err
		}
		in.Attachments[i] = small
	}
	return in, nil
}

// scaled returns an image that is at most maxSide wide and high. Whether it is
// one, and how large, its header decides before anything is unpacked. What
// cannot be decoded is left to the agent, which says so.
func scaled(a runnel.Attachment) (runnel.Attachment, error) {
	c, _, err := image.DecodeConfig(bytes.NewReader(a.Data))
	if err != nil {
		return a, nil
	}
	if c.Width > refusedSide || c.Height > refusedSide {
		return a, runnel.Fail(runnel.AttachmentFailure, "an image is larger than 8000 × 8000 pixels, which models refuse; make it smaller")
	}
	if max(c.Width, c.Height) <= maxSide || c.Width*c.Height > maxPixels {
		return a, nil
	}
	src, format, err := image.Decode(bytes.NewReader(a.Data))
	if err != nil {
		return a, nil
	}
	w, h := fit(c.Width, c.Height)
	dst := image.NewNRGBA(image.Rect(0, 0, w, h))
	draw.BiLinear.Scale(dst, dst.Bounds(), src, src.Bounds(), draw.Src, nil)
	if format == "jpeg" {
		dst = upright(dst, orientation(a.Data))
	}
	data, media, err := packed(dst, format == "jpeg")
	if err != nil {
		return a, nil
	}
	a.Data, a.MediaType = data, media
	return a, nil
}

// fit returns the size of an image of which the longer side is maxSide.
func fit(w, h int) (int, int) {
	if w >= h {
		return maxSide, max(1, h*maxSide/w)
	}
	return max(1, w*maxSide/h), maxSide
}

// packed encodes without loss what was without, as long as it stays small.
func packed(m *image.NRGBA, photo bool) (data []byte, media string, err error) {
	var b bytes.Buffer
	if !photo {
		if err := png.Encode(&b, m); err != nil {
			return nil, "", err
		}
		if b.Len() <= maxImage {
			return b.Bytes(), "image/png", nil
		}
		b.Reset()
		ground := image.NewNRGBA(m.Bounds()) // JPEG has no transparency
		draw.Draw(ground, ground.Bounds(), image.White, image.Point{}, draw.Src)
		draw.Draw(ground, ground.Bounds(), m, image.Point{}, draw.Over)
		m = ground
	}
	err = jpeg.Encode(&b, m, &jpeg.Options{Quality: 85})
	return b.Bytes(), "image/jpeg", err
}
