package load

import (
	"context"
	"errors"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestPlanSurvivesThePrompt(t *testing.T) {
	for _, want := range []Plan{{}, {20000, 0, 0, false, ""}, {2000, 195, 3, true, ""}, {5, 0.5, 0, true, "/tmp/a folder/steps"}} {
		got, ok := Parse(Plan{Events: 1}.Prompt() + "\n" + want.Prompt())
		if !ok || got != want {
			t.Errorf("%q: %+v %v", want.Prompt(), got, ok)
		}
	}
	if _, ok := Parse("events=3"); ok {
		t.Error("a plan in words that hold none")
	}
}

func TestStampsSurviveTheStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var text strings.Builder
		start := time.Now()
		n, err := Plan{Events: 5, Rate: 10}.Write(t.Context(), func(s string) error {
			text.WriteString(s)
			return nil
		})
		if n != 5 || err != nil {
			t.Fatal(n, err)
		}
		for i, s := range Stamps(text.String()) {
			if s.N != i || s.At.Sub(start) != time.Duration(i)*100*time.Millisecond {
				t.Errorf("%d: %v after %v", i, s.N, s.At.Sub(start))
			}
		}
		if got := len(Stamps("x 1@2 @; 7@; @8; ;")); got != 0 {
			t.Errorf("%d stamps in none", got)
		}
	})
}

func TestAPlanWaitsForItsGate(t *testing.T) {
	gate, err := net.Listen("unix", filepath.Join(t.TempDir(), "gate"))
	if err != nil {
		t.Fatal(err)
	}
	defer gate.Close()
	emitted, done := make(chan string), make(chan error, 1)
	go func() {
		_, err := Plan{Events: 3, Gate: gate.Addr().String()}.Write(t.Context(), func(text string) error {
			emitted <- text
			return nil
		})
		done <- err
	}()
	conn, err := gate.Accept()
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		select {
		case text := <-emitted:
			t.Errorf("%q before the gate opened", text)
		default:
		}
		if _, err := conn.Write([]byte{1}); err != nil {
			t.Fatal(err)
		}
		<-emitted
	}
	if err := errors.Join(conn.Close(), <-done); !errors.Is(err, io.EOF) {
		t.Errorf("the gate closed before the third delta: %v", err)
	}
}

func TestAPlanEndsWithItsContext(t *testing.T) {
	for _, rate := range []float64{0, 100, 1e9, 1e9, 1e9, 1e9} { // with the high rate, each delta is late
		ctx, cancel := context.WithCancel(t.Context())
		var got []string
		n, err := Plan{Events: 1000, Rate: rate}.Write(ctx, func(s string) error {
			if got = append(got, s); len(got) == 3 {
				cancel()
			}
			return nil
		})
		if n != 3 || err == nil || len(slices.Compact(got)) != 3 {
			t.Errorf("rate %g: %d %v", rate, n, err)
		}
	}
}
