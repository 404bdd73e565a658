package claude

import (
	"bytes"
	"context"
	"image"
	_ "image/gif" // registers the decoder
	"image/jpeg"
	"image/png"
	"slices"
	"strings"

	"golang.org/x/image/draw"
	_ "golang.org/x/image/webp" // registers the decoder

	"github.com/runnel-dev/runnel"
)

const (
	// maxSide is the largest side of an image that the agent sends to the model
	// unchanged, in pixels. The agent scales larger images itself and reports
	// that to the model; on 2.1.197 this takes seconds.
	maxSide = 2000
	// refusedSide is the largest side of an image that the model API accepts,
	// in pixels.
	refusedSide = 8000
	// maxPixels bounds the images that are decoded. A pixel takes at most 12
	// bytes of memory, in a progressive JPEG. Larger images are sent unchanged.
	maxPixels = 16 << 20
	// maxScans bounds the scans of a JPEG that is decoded. A progressive JPEG
	// has about ten. The decoder visits the whole image for each scan, and a scan
	// that changes nothing has 27 bytes. An image with more scans is sent
	// unchanged.
	maxScans = 100
	// maxImage bounds a scaled PNG, in bytes. A larger one is encoded as JPEG.
	// The API accepts 5 MB of base64.
	maxImage = 3 << 20
)

// startOfScan is the marker before each scan of a JPEG. The compressed data of a
// scan does not contain these bytes.
var startOfScan = []byte{0xff, 0xda}

// scaling contains a value while an image is being scaled. A decoded image needs
// 200 MB of memory at most, and every session of every client may send one. So
// the server decodes one image at a time.
var scaling = make(chan struct{}, 1)

// Prepare implements [runnel.Preparer]. It scales images to the size that the
// agent would choose, so that the agent stores exactly the image that was sent.
func (p *Provider) Prepare(ctx context.Context, in runnel.Input) (runnel.Input, error) {
	in.Attachments = slices.Clone(in.Attachments)
	for i, a := range in.Attachments {
		if !strings.HasPrefix(a.MediaType, "image/") {
			continue
		}
		if err := ctx.Err(); err != nil {
			return in, err
		}
		small, err := scaled(ctx, a)
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
// size from the header before it decodes the image. It returns an image with
// more than maxPixels pixels or maxScans scans unchanged, and one that cannot be
// decoded; the agent reports the latter. It returns an error only if ctx ends.
func scaled(ctx context.Context, a runnel.Attachment) (runnel.Attachment, error) {
	c, format, err := image.DecodeConfig(bytes.NewReader(a.Data))
	if err != nil {
		return a, nil
	}
	if max(c.Width, c.Height) <= maxSide || c.Width*c.Height > maxPixels {
		return a, nil
	}
	if format == "jpeg" && bytes.Count(a.Data, startOfScan) > maxScans {
		return a, nil
	}
	select {
	case scaling <- struct{}{}:
		defer func() { <-scaling }()
	case <-ctx.Done():
		return a, ctx.Err()
	}
	src, _, err := image.Decode(bytes.NewReader(a.Data))
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

// fit returns the size of an image whose longer side is scaled to maxSide.
func fit(w, h int) (int, int) {
	if w >= h {
		return maxSide, max(1, h*maxSide/w)
	}
	return max(1, w*maxSide/h), maxSide
}

// packed encodes an image: a photo as JPEG, any other image as PNG, or as JPEG
// if the PNG is larger than maxImage.
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
