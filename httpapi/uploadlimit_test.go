package httpapi

import (
	"testing"
	"testing/synctest"

	"github.com/runnel-dev/runnel/attach"
	"github.com/runnel-dev/runnel/gateway"
)

// Each upload takes a folder and a name in the store of all uploads. If only
// its bytes counted, one credential could fill the store with tiny files.
func TestTinyUploadsCountTowardsTheLimitOfACredential(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const fit = 8
		rg := newRig(t, func(c *Config, _ *gateway.Config) {
			c.Limits.UploadBytes = attach.MaxFile + fit*(attach.PerUpload+1)
		})
		octets := header("Content-Type", "application/octet-stream")
		for i := range 2 * fit {
			w := rg.do("POST", "/api/uploads?name=a.txt", "a", octets)
			if stored := w.Code == 201; stored != (i < fit) || !stored && code(w) != "RATE_LIMITED" {
				t.Errorf("upload %d of one byte: %d %s", i, w.Code, w.Body)
			}
		}
		if w := rg.do("POST", "/api/uploads?name=a.exe", "a", octets); w.Code != 429 {
			t.Errorf("another upload: %d %s", w.Code, w.Body)
		}
	})
}
