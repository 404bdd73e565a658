package acp

import (
	"os"
	"testing"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/fakemodel"
)

func TestTry(t *testing.T) {
	name := os.Getenv("TRY")
	if name == "" {
		t.Skip()
	}
	r := newRig(t, name)
	r.opt.Tap = func(d runnel.Dir, l []byte) {
		if len(l) > 2000 {
			l = l[:2000]
		}
		t.Logf("%s %s", d, l)
	}
	r.open()
	r.play(fakemodel.Step{Fail: &fakemodel.Failure{Status: 400}})
	t.Log(dump(r.finish("allow_once")))
}
