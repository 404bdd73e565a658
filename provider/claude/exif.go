package claude

import (
	"bytes"
	"encoding/binary"
	"image"
)

// orientation returns the Exif orientation of a JPEG, from 1 (upright) to 8.
// Encoding the image again loses the orientation, so upright must be applied to
// the pixels.
func orientation(data []byte) int {
	for data = data[min(2, len(data)):]; len(data) >= 4 && data[0] == 0xff && data[1] != 0xda; {
		size := int(binary.BigEndian.Uint16(data[2:])) + 2
		if size > len(data) {
			return 1
		}
		if body, ok := bytes.CutPrefix(data[4:size], []byte("Exif\x00\x00")); ok && data[1] == 0xe1 {
			return tiffOrientation(body)
		}
		data = data[size:]
	}
	return 1
}

func tiffOrientation(b []byte) int {
	if len(b) < 8 {
		return 1
	}
	var order binary.ByteOrder = binary.LittleEndian
	if b[0] == 'M' {
		order = binary.BigEndian
	}
	at := int(order.Uint32(b[4:]))
	if at < 8 || at+2 > len(b) {
		return 1
	}
	entries := b[at+2:]
	for range order.Uint16(b[at:]) {
		if len(entries) < 12 {
			return 1
		}
		if v := int(order.Uint16(entries[8:])); order.Uint16(entries) == 0x0112 && v >= 1 && v <= 8 {
			return v
		}
		entries = entries[12:]
	}
	return 1
}

// upright rotates and mirrors an image according to its Exif orientation.
func upright(m *image.NRGBA, orientation int) *image.NRGBA {
	if orientation == 1 {
		return m
	}
	w, h := m.Rect.Dx(), m.Rect.Dy()
	out := image.NewNRGBA(image.Rect(0, 0, w, h))
	if orientation >= 5 {
		out = image.NewNRGBA(image.Rect(0, 0, h, w))
	}
	for y := range h {
		for x := range w {
			to := [...][2]int{
				{x, y}, {w - 1 - x, y}, {w - 1 - x, h - 1 - y}, {x, h - 1 - y},
				{y, x}, {h - 1 - y, x}, {h - 1 - y, w - 1 - x}, {y, w - 1 - x},
			}[orientation-1]
			copy(out.Pix[out.PixOffset(to[0], to[1]):], m.Pix[m.PixOffset(x, y):][:4])
		}
	}
	return out
}
