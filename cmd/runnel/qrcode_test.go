package main

import (
	"image"
	"image/color"
	"strings"
	"testing"

	"github.com/makiuchi-d/gozxing"
	"github.com/makiuchi-d/gozxing/qrcode"
)

// photo draws the lines of a QR code as a terminal with square half cells does.
func photo(t *testing.T, lines string, width int) image.Image {
	t.Helper()
	const side = 6 // pixels of a module
	rows := strings.Split(strings.TrimSuffix(lines, "\n"), "\n")
	img := image.NewGray(image.Rect(0, 0, width*side, 2*len(rows)*side))
	for y, row := range rows {
		row, ok := strings.CutPrefix(row, "\x1b[38;5;16;48;5;231m")
		row, reset := strings.CutSuffix(row, "\x1b[0m")
		cells := []rune(row)
		if !ok || !reset || len(cells) != width {
			t.Fatalf("row %d: %q", y, row)
		}
		for x, c := range cells {
			for half, dark := range []bool{c == '▀' || c == '█', c == '▄' || c == '█'} {
				if dark {
					continue
				}
				for p := range side * side {
					img.SetGray(x*side+p%side, (2*y+half)*side+p/side, color.Gray{Y: 255})
				}
			}
		}
	}
	return img
}

func TestPhoneReadsTheLinkInTheCode(t *testing.T) {
	for _, link := range []string{
		pageLink("https://192.168.178.23:7317", "rnl_"+strings.Repeat("aZ9_-", 8)+"abc"),
		pageLink("https://a-machine-with-a-long-name.some-tailnet.ts.net/with/a/base", "rnl_"+strings.Repeat("aZ9_-", 8)+"abc"),
	} {
		lines, width, err := qrCode(link)
		if err != nil {
			t.Fatal(err)
		}
		if width > 80 {
			t.Errorf("%d columns do not fit on a usual terminal", width)
		}
		bits, err := gozxing.NewBinaryBitmapFromImage(photo(t, lines, width))
		if err != nil {
			t.Fatal(err)
		}
		read, err := qrcode.NewQRCodeReader().Decode(bits, nil)
		if err != nil || read.GetText() != link {
			t.Errorf("read %v, %v; want %s", read, err, link)
		}
	}
}

func TestOnlyReachableLinksAreForOtherDevices(t *testing.T) {
	code := "rnl_" + strings.Repeat("A", 43)
	for _, tt := range []struct{ url, network, want string }{
		{"http://x.localhost:7317", "", ""},
		{"http://127.0.0.1:7317", "", ""},
		{"https://127.0.0.1", "", ""},
		{"https://[::1]:1", "", ""},
		{"https://x.localhost", "", ""},
		{"https://runnel.example.org", "", "https://runnel.example.org"},
		{"http://x.localhost:7317", "https://192.168.1.5:7317", "https://192.168.1.5:7317"},
	} {
		_, elsewhere, err := loginLinks{tt.url, tt.network, code}.check()
		want := ""
		if tt.want != "" {
			want = pageLink(tt.want, code)
		}
		if err != nil || elsewhere != want {
			t.Errorf("%s, %s: got %q, %v", tt.url, tt.network, elsewhere, err)
		}
	}
	if _, _, err := (loginLinks{"http://x.localhost:1", "https://evil\x1b[2J", code}).check(); err == nil {
		t.Error("a link with control characters")
	}
}
