package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"
)

// filled returns a server that does not run yet. fill has written its data.
func (b *bench) filled(ctx context.Context, fill func(*filler) error) (*runnel, error) {
	s, err := newRunnel(b.w, b.w.path("bin"))
	if err != nil {
		return nil, err
	}
	project := filepath.Join(s.home, "project")
	if err := os.MkdirAll(project, 0o700); err != nil {
		return nil, err
	}
	f, err := newFiller(ctx, s.data, project)
	if err != nil {
		return nil, err
	}
	if err := fill(f); err != nil {
		return nil, fmt.Errorf("fill the data directory: %w", err)
	}
	return s, f.close()
}

// sessionRows measures a server that has many sessions: its start and its lists.
func (b *bench) sessionRows(ctx context.Context) error {
	b.w.logf("filling a data directory with %s sessions", thousands(b.size.stored))
	s, err := b.filled(ctx, func(f *filler) error { return f.sessions(ctx, b.size.stored) })
	if err != nil {
		return err
	}
	empty, err := newRunnel(b.w, b.w.path("bin"))
	if err != nil {
		return err
	}
	var starts, bare []time.Duration
	for range b.size.rounds {
		for _, one := range []struct {
			s    *runnel
			took *[]time.Duration
		}{{s, &starts}, {empty, &bare}} {
			if err := one.s.credential(ctx); err != nil { // not part of the start
				return err
			}
			began := time.Now()
			if err := one.s.start(ctx); err != nil {
				return err
			}
			if _, _, err := one.s.get(ctx, "/api/health"); err != nil {
				return err
			}
			*one.took = append(*one.took, time.Since(began))
			one.s.stop()
		}
	}
	what := thousands(b.size.stored) + " sessions"
	b.report.add(row{
		ID: "start", What: "start of a server with " + what + ", until it answers", Ours: millis(median(starts)), Numbers: []number{atMost("", ms(median(starts)), "ms", 300)},
		Note: fmt.Sprintf("median of %d; without sessions %s", len(starts), millis(median(bare))),
	})
	if err := s.start(ctx); err != nil {
		return err
	}
	defer s.stop()
	for _, path := range []string{"/api/session/list?projectId=*", "/api/overview"} {
		var took []time.Duration
		bytes, n := 0, 0
		first := time.Duration(0)
		for i := range 3 * b.size.rounds {
			began := time.Now()
			body, _, err := s.get(ctx, path)
			if err != nil {
				return err
			}
			if i == 0 {
				first = time.Since(began)
			}
			took = append(took, time.Since(began))
			var list struct{ Sessions []json.RawMessage }
			if err := json.Unmarshal(body, &list); err != nil {
				return err
			}
			bytes, n = len(body), len(list.Sessions)
		}
		b.report.add(row{
			ID: path, What: fmt.Sprintf("%s: GET %s, whole answer", what, path), Ours: millis(median(took)), Numbers: []number{atMost("", ms(median(took)), "ms", 30)},
			Note: fmt.Sprintf("median of %d, the first %s; %s sessions in %s", len(took), millis(first), thousands(n), megabytes(bytes)),
		})
	}
	return nil
}

// get returns the body of a successful answer.
func (s *runnel) get(ctx context.Context, path string) ([]byte, http.Header, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, nil)
	if err != nil {
		return nil, nil, err
	}
	req.Header = s.header()
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer res.Body.Close()
	var body bytes.Buffer
	body.Grow(int(max(res.ContentLength, 0)) + bytes.MinRead)
	_, err = body.ReadFrom(res.Body)
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s %s", path, res.Status, body.String())
	}
	return body.Bytes(), res.Header, err
}
