package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/runnel-dev/runnel/bench/load"
)

// wordsPerSecond is the rate of an answer while somebody types. Each delta is
// one word.
const wordsPerSecond = 120

// pageSpeed is what speed.mjs measures of one page, in milliseconds.
type pageSpeed struct {
	Paint, View, Open, Warm []float64
	Scroll, Stream, Typing  []float64
}

type speeds struct {
	Ready       bool
	Ours, Floor pageSpeed
	Script      float64 // bytes of the compressed scripts up to the first paint
	ViewScript  float64 // the same up to the first view
}

// speedRows measures what people notice of the page, and a static page beside
// it.
func (b *bench) speedRows(ctx context.Context) error {
	if why := b.cannotPaint(); why != "" {
		for _, w := range speedTable(speeds{}, b.size) {
			w.Target = w.target()
			w.Ours, w.Numbers, w.Peer, w.Note = unmeasured, nil, "", why
			b.report.add(w)
		}
		return nil
	}
	s, err := newRunnel(b.w, b.w.path("bin"))
	if err != nil {
		return err
	}
	if err := s.start(ctx); err != nil {
		return err
	}
	defer s.stop()
	measured, err := b.speed(ctx, s)
	if err != nil {
		return err
	}
	b.report.add(speedTable(measured, b.size)...)
	return nil
}

// speedTable returns the rows of a measurement.
func speedTable(m speeds, size size) []row {
	items := thousands(size.items)
	median := func(id, what string, ours, floor []float64, target float64) row {
		return row{ID: id, What: what + "; median / longest", Note: fmt.Sprintf("of %d", len(ours)),
			Ours: medianAndMost(ours), Peer: "static page " + medianAndMost(floor),
			Numbers: []number{atMost("median", percentile(ours, 50), "ms", target), lower("longest", percentile(ours, 100), "ms")}}
	}
	frames := func(id, what string, ours, floor []float64) row {
		return row{ID: id, What: what + ": frames, p50 / p95 / longest", Note: fmt.Sprintf("of %d", len(ours)),
			Ours: framesAnd(ours), Peer: "static page " + framesAnd(floor),
			Numbers: []number{lower("p95", percentile(ours, 95), "ms"), atMost("longest", percentile(ours, 100), "ms", 50)}}
	}
	paint := median("paint", "first contentful paint of the page, empty cache", m.Ours.Paint, m.Floor.Paint, 300)
	paint.Note = fmt.Sprintf("of %d; the session is in the list after %s; load average %s", len(m.Ours.Paint), medianAndMost(m.Ours.View), loadAverage())
	typing := row{ID: "typing", What: fmt.Sprintf("key → its paint while %d words a second arrive; p50 / p95 / longest", wordsPerSecond),
		Ours: framesAnd(m.Ours.Typing), Peer: "static page without words " + framesAnd(m.Floor.Typing), Note: fmt.Sprintf("of %d keys, in a session of %s items", len(m.Ours.Typing), items),
		Numbers: []number{lower("p50", percentile(m.Ours.Typing, 50), "ms"), atMost("p95", percentile(m.Ours.Typing, 95), "ms", 30)}}
	script := row{ID: "script", What: "compressed scripts up to the first contentful paint", Note: fmt.Sprintf("up to the first view %.1f kB", m.ViewScript/1000), Ours: fmt.Sprintf("%.1f kB", m.Script/1000),
		Numbers: []number{atMost("", m.Script/1000, "kB", 120)}, Peer: "static page 0 kB"}
	return []row{
		paint,
		median("open", "open the page on a session of "+items+" items at its end, empty cache", m.Ours.Open, m.Floor.Open, 300),
		median("warm", "the same in an open page that has shown the session before, from a click", m.Ours.Warm, m.Floor.Warm, 100),
		frames("scroll", "scroll through a session of "+items+" items", m.Ours.Scroll, m.Floor.Scroll),
		frames("stream", fmt.Sprintf("type while %d words a second arrive", wordsPerSecond), m.Ours.Stream, m.Floor.Stream),
		typing,
		script,
	}
}

func medianAndMost(all []float64) string {
	return millis(fromMillis(percentile(all, 50))) + " / " + millis(fromMillis(percentile(all, 100)))
}

func framesAnd(all []float64) string {
	times := each(all, fromMillis)
	return spread{percentile(times, 50), percentile(times, 95), percentile(times, 100)}.String()
}

// speed runs speed.mjs once.
func (b *bench) speed(ctx context.Context, s *runnel) (m speeds, err error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	empty, err := s.open(ctx)
	if err != nil {
		return m, err
	}
	opened, err := s.open(ctx)
	if err != nil {
		return m, err
	}
	c := opened.(*session)
	b.w.logf("a session of %s items", thousands(b.size.items))
	if err := turn(ctx, c, load.Plan{Items: b.size.items}); err != nil {
		return m, err
	}
	link, err := s.command(ctx, "login").Output()
	if err != nil {
		return m, fmt.Errorf("login: %w", err)
	}
	floor, err := serveStatic(b.size.items)
	if err != nil {
		return m, err
	}
	defer floor.Close()
	words := wordsPerSecond * 10
	request := map[string]any{
		"link": strings.TrimSpace(string(link)), "session": c.id, "other": empty.(*session).id, "floor": "http://" + floor.Addr,
		"rounds": 3 * b.size.rounds, "last": words - 1,
	}
	b.w.logf("the page and a static page")
	err = b.browse(ctx, "speed.mjs", request, func(answers *json.Decoder) error {
		if err := answers.Decode(&m); err != nil {
			return err
		}
		if err := c.prompt(ctx, load.Plan{Events: words, Rate: wordsPerSecond}.Prompt()); err != nil {
			return err
		}
		return answers.Decode(&m)
	})
	if err == nil && (len(m.Ours.Typing) == 0 || len(m.Floor.Typing) == 0 || m.Script == 0) {
		err = fmt.Errorf("the browser has measured too little: %d and %d keys, %g bytes of scripts", len(m.Ours.Typing), len(m.Floor.Typing), m.Script)
	}
	return m, errors.Join(err, c.end(ctx))
}

// browse runs a program of this directory with Node.js, writes a request to it,
// and calls read with its answers.
func (b *bench) browse(ctx context.Context, program string, request any, read func(*json.Decoder) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	line, err := json.Marshal(request)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "node", filepath.Join(b.w.root, "bench", program))
	cmd.Dir = b.w.root
	var stderr strings.Builder
	cmd.Stderr = &stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	_, err = in.Write(append(line, '\n')) // the link is a secret, so it is no argument
	if err == nil {
		err = read(json.NewDecoder(bufio.NewReader(out)))
	}
	if err != nil {
		cancel()
	}
	_, _ = io.Copy(io.Discard, out)
	if waitErr := cmd.Wait(); err != nil || waitErr != nil {
		return fmt.Errorf("browser: %w\n%s", errors.Join(err, waitErr), stderr.String())
	}
	return nil
}

// serveStatic serves the floor: "/" is a page with a list, and "/long" one with
// items and a field. They have no scripts, except a button of "/long" that
// writes one screen of items.
func serveStatic(items int) (*http.Server, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	page := func(n int) []byte {
		var b strings.Builder
		b.WriteString(`<!doctype html><html lang="en"><meta charset="utf-8"><title>Floor</title><style>body{margin:0;font:14px/1.4 system-ui}main{height:calc(100vh - 80px);overflow-y:auto}</style><main>`)
		for i := range n {
			fmt.Fprintf(&b, "<p>%d@1700000000000000000; an item of the static page</p>", i)
		}
		b.WriteString(`<p data-end id="end">end</p></main><textarea aria-label="Field"></textarea><button onclick="document.querySelector('main').innerHTML='<p>an item of the static page</p>'.repeat(20)+'<p data-end>end</p>'">Write</button></html>`)
		return []byte(b.String())
	}
	serve := func(data []byte) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			w.Header().Set("Cache-Control", "no-store")
			_, _ = w.Write(data)
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/{$}", serve(page(20)))
	mux.HandleFunc("/long", serve(page(items)))
	server := &http.Server{Addr: l.Addr().String(), Handler: mux, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }() // ends when the server is closed
	return server, nil
}
