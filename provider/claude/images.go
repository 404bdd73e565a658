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
	// maxSide is the largest side of an image that the agent passes on
	// unchanged, in pixels. It scales larger images itself, which takes seconds
	// on 2.1.197, and tells the model so.
	maxSide = 2000
	// refusedSide is what the model API refuses.
	refusedSide = 8000
	// maxPixels bounds the images that are decoded: a pixel takes at most 12
	// bytes, in a progressive JPEG. Larger images are sent as they are.
	maxPixels = 16 << 20
	// maxImage bounds an image that was encoded again, in bytes; the API
	// accepts 5 MB of base64.
	maxImage = 3 << 20
)

// Prepare implements [runnel.Preparer]. It scales images as the agent would, so
// that the agent stores what was sent.
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

// Accepts implements [runnel.Accepter].
func (p *Provider) Accepts(context.Context, runnel.Options) (func(runnel.Attachment) string, error) {
	return func(a runnel.Attachment) string {
		if !strings.HasPrefix(a.MediaType, "image/") {
			return ""
		}
		c, _, err := image.DecodeConfig(bytes.NewReader(a.Data))
		if err == nil && (c.Width > refusedSide || c.Height > refusedSide) {
			return "the image is larger than 8000 × 8000 pixels, which models refuse; make it smaller"
		}
		return ""
	}, nil
}

// scaled returns an image that is at most maxSide wide and high. It reads the
// size from the header before it decodes anything. An image that cannot be
// decoded is returned unchanged: the agent reports it.
func scaled(a runnel.Attachment) (runnel.Attachment, error) {
	c, _, err := image.DecodeConfig(bytes.NewReader(a.Data))
	if err != nil {
		return a, nil
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

// packed encodes an image: a photo as JPEG, others without loss unless that is
// too large.
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
