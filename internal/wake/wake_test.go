package wake_test

import (
	"testing"

	"github.com/runnel-dev/runnel/internal/wake"
)

func TestSignalsThatWaitBecomeOne(t *testing.T) {
	s := wake.New()
	for range 2 {
		for range 3 {
			s.Send()
		}
		<-s
		select {
		case <-s:
			t.Fatal("the second signal was kept too")
		default:
		}
	}
}
