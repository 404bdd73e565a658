package httpapi

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi/stream"
	"github.com/runnel-dev/runnel/store"
)

// stops is a filter that stops at each text of a file until it may go on.
type stops struct{ at, on chan struct{} }

func (s stops) Event(ev event.Event) []event.Event { return []event.Event{ev} }
func (s stops) End() []event.Event                 { return nil }

func (s stops) Text(text string) string {
	if text == "stop" {
		s.at <- struct{}{}
		<-s.on
	}
	return text
}

// getLater requests a path with a token. It returns at once; answers receives the
// status of the answer. If there is an unread, the client stops there before it
// reads the answer.
func (rg *rig) getLater(token, path string, answers chan<- int, unread ...stops) {
	rg.token = token
	r := rg.request("GET", path, "")
	recorder := httptest.NewRecorder()
	var w http.ResponseWriter = recorder
	for _, stop := range unread {
		w = unreadAnswer{recorder, stop}
	}
	go func() {
		rg.ServeHTTP(w, r)
		answers <- recorder.Code
	}()
}

// The content of a file is in memory until it is sent. A credential that
// requests many files at once therefore waits, and others do not.
func TestFilesAtOnceAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const all = 10 * maxFilesAtOnce
		stop := stops{make(chan struct{}, all), make(chan struct{})}
		rg := newRig(t, func(_ *Config, g *gateway.Config) {
			g.Filter = func(runnel.Options) runnel.Filter { return stop }
		})
		rg.project(map[string]string{"a.txt": "stop"})
		of := "/api/session/" + rg.create()
		greedy, other := rg.mint(auth.Read), rg.mint(auth.Read)
		answers := make(chan int, 2*all)
		get := func(token, path string) { rg.getLater(token, of+path, answers) }
		for range all {
			get(greedy, "/file?path=a.txt")
		}
		synctest.Wait()
		if n := len(stop.at); n != maxFilesAtOnce {
			t.Errorf("%d files were read at once, want %d", n, maxFilesAtOnce)
		}
		for _, path := range []string{"/folder", "/files?query=a", "/image?path=a.txt"} {
			get(greedy, path)
		}
		synctest.Wait()
		if n := len(answers); n != 0 {
			t.Errorf("%d requests did not wait", n)
		}
		get(greedy, "/git") // requests about changes have their own turns
		get(other, "/folder")
		synctest.Wait()
		if n := len(answers); n != 2 {
			t.Errorf("%d of the others were answered, want 2", n)
		}
		close(stop.on)
		for range all + 5 {
			if code := <-answers; code != http.StatusOK && code != http.StatusBadRequest { // a.txt is no image
				t.Errorf("got %d", code)
			}
		}
	})
}

// unreadAnswer is a client that does not read its answer until it may go on.
type unreadAnswer struct {
	*httptest.ResponseRecorder
	stops
}

func (w unreadAnswer) Write(p []byte) (int, error) {
	w.at <- struct{}{}
	<-w.on
	return w.ResponseRecorder.Write(p)
}

// A list of many sessions is in memory until it is sent.
func TestListsAtOnceAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const all = 10 * maxListsAtOnce
		rg := newRig(t)
		rg.create()
		paths := []string{"/api/session/list?projectId=*", "/api/overview", "/api/harness/session/list"}
		stop := stops{make(chan struct{}, 10*all), make(chan struct{})}
		answers := make(chan int, 10*all)
		get := func(token, path string) { rg.getLater(token, path, answers, stop) }
		greedy, other := rg.mint(auth.Read), rg.mint(auth.Read)
		for i := range all {
			get(greedy, paths[i%len(paths)])
		}
		get(other, paths[0])
		synctest.Wait()
		if n := len(stop.at); n != maxListsAtOnce+1 {
			t.Errorf("%d lists were made at once, want %d and that of the other", n, maxListsAtOnce)
		}
		close(stop.on)
		for range all + 1 {
			if code := <-answers; code != http.StatusOK {
				t.Errorf("got %d", code)
			}
		}
	})
}

// reading is a log of which nothing is read, once it stops, until it may go on.
type reading struct {
	*runnel.Memory
	stops *atomic.Bool
	at    chan struct{}
	on    chan struct{}
}

func (l reading) Read(ctx context.Context, session string, after int64) iter.Seq2[event.Event, error] {
	if l.stops.Load() {
		l.at <- struct{}{}
		<-l.on
	}
	return l.Memory.Read(ctx, session, after)
}

// A page of a session's history takes as much memory as the longest items, which
// may have many megabytes, and the time to read them. A credential that
// requests many pages at once therefore waits, and others do not.
func TestPagesOfHistoryAtOnceAreBounded(t *testing.T) {
	stopping := func(log *reading) func(*Config, *gateway.Config) {
		return func(_ *Config, g *gateway.Config) {
			*log = reading{g.Log.(*runnel.Memory), new(atomic.Bool), make(chan struct{}, 1000), make(chan struct{})}
			g.Log = *log
		}
	}
	for _, query := range []string{"?before=0", "?before=3&limit=1", "?after=0"} {
		t.Run(query, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log reading
				rg := newRig(t, stopping(&log))
				id := rg.create()
				rg.prompt(id, "demo")
				greedy, other := rg.mint(auth.Read), rg.mint(auth.Read)
				answers := make(chan int, 100)
				get := func(token string) { rg.getLater(token, "/api/session/"+id+"/items"+query, answers) }
				synctest.Wait()
				log.stops.Store(true)
				for range 40 {
					get(greedy)
				}
				synctest.Wait()
				alone := len(log.at)
				get(other)
				synctest.Wait()
				if alone != stream.PagesAtOnce || len(log.at) != alone+1 {
					t.Errorf("%d pages were read at once, and %d with that of another credential; want %d and one more", alone, len(log.at), stream.PagesAtOnce)
				}
				close(log.on)
				for range 41 {
					if code := <-answers; code != http.StatusOK {
						t.Errorf("got %d", code)
					}
				}
			})
		})
	}
	for name, message := range map[string]map[string]any{
		"session:items":                 {"type": "session:items"},
		"session:subscribe, limit":      {"type": "session:subscribe", "limit": 10},
		"session:subscribe":             {"type": "session:subscribe"},
		"session:subscribe, in a turn":  {"type": "session:subscribe", "after": 5},
		"session:subscribe, events":     {"type": "session:subscribe", "family": stream.FamilyEvents},
		"session:subscribe, from event": {"type": "session:subscribe", "after": 5, "family": stream.FamilyEvents},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				message := maps.Clone(message)
				family, _ := message["family"].(string)
				delete(message, "family")
				var log reading
				s := serve(t, stopping(&log))
				id := s.create()
				s.prompt(id, "demo")
				var conns []net.Conn
				for range 3 * stream.PagesAtOnce {
					conns = append(conns, s.unreadSocket(cmp.Or(family, stream.FamilyUpsert)))
				}
				synctest.Wait()
				log.stops.Store(true)
				message["sessionId"] = id
				for _, c := range conns {
					sendText(t, c, message)
				}
				synctest.Wait()
				if n := len(log.at); n != stream.PagesAtOnce {
					t.Errorf("%d pages were read at once, want %d", n, stream.PagesAtOnce)
				}
				close(log.on)
				for _, c := range conns {
					_ = c.Close()
				}
				synctest.Wait()
			})
		})
	}
	t.Run("streams", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var log reading
			rg := newRig(t, stopping(&log))
			id := rg.create()
			rg.prompt(id, "demo")
			greedy, other := rg.mint(auth.Read), rg.mint(auth.Read)
			ctx, end := context.WithCancel(t.Context())
			var streams sync.WaitGroup
			follow := func(token string) {
				rg.token = token
				r := rg.request("GET", "/api/session/"+id+"/events", "").WithContext(ctx)
				streams.Go(func() { rg.ServeHTTP(httptest.NewRecorder(), r) })
			}
			synctest.Wait()
			log.stops.Store(true)
			for range 3 * stream.PagesAtOnce {
				follow(greedy)
			}
			synctest.Wait()
			alone := len(log.at)
			follow(other)
			synctest.Wait()
			if alone != stream.PagesAtOnce || len(log.at) != alone+1 {
				t.Errorf("%d streams read at once, and %d with that of another credential; want %d and one more", alone, len(log.at), stream.PagesAtOnce)
			}
			close(log.on)
			end()
			streams.Wait()
		})
	})
}

// Clients that do not read their answers must not make further requests of their
// credential wait, because the user's own page may use it, too.
func TestUnreadPagesOfHistoryLetOthersBeRead(t *testing.T) {
	for _, query := range []string{"?before=0", "?after=0"} {
		t.Run(query, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rg := newRig(t)
				id := rg.create()
				rg.prompt(id, "demo")
				synctest.Wait()
				stop, answered := stops{make(chan struct{}, 1000), make(chan struct{})}, make(chan int, 100)
				for range 2 * stream.PagesAtOnce {
					rg.getLater(rg.token, "/api/session/"+id+"/items"+query, answered, stop)
				}
				synctest.Wait()
				rg.getLater(rg.token, "/api/session/"+id+"/items?before=0", answered)
				synctest.Wait()
				if n := len(answered); n != 1 {
					t.Errorf("%d answers, want one", n)
				}
				close(stop.on)
				for range 2*stream.PagesAtOnce + 1 {
					if code := <-answered; code != http.StatusOK {
						t.Errorf("got %d", code)
					}
				}
			})
		})
	}
}

// slow is a store whose searches and totals take until they may end.
type slow struct {
	store.Catalogue
	at chan string
	on chan struct{}
}

func (s slow) wait(what string) {
	s.at <- what
	<-s.on
}

func (s slow) Usage(context.Context, store.UsageFilter) ([]store.Usage, error) {
	s.wait("usage")
	return nil, nil
}

func (s slow) Search(_ context.Context, q store.SearchQuery) (store.SearchPage, error) {
	s.wait(q.Text)
	return store.SearchPage{}, nil
}

func (slow) Indexed(context.Context) (map[string]store.SearchPosition, error) { return nil, nil }
func (slow) Forget(context.Context, ...string) error                          { return nil }
func (slow) Size() int64                                                      { return 0 }
func (slow) Close() error                                                     { return nil }
func (slow) AddItems(context.Context, store.SearchSession, int64, int64, ...store.SearchItem) error {
	return nil
}

// queueing is a catalogue that reads the queue of a session only once it may.
type queueing struct {
	store.Catalogue
	at chan string
	on chan struct{}
}

func (q queueing) Queue(ctx context.Context, session string) ([]store.Queued, error) {
	if session != "" {
		q.at <- session
		<-q.on
	}
	return q.Catalogue.Queue(ctx, session)
}

// A preview of a deletion examines the session's worktree, as a request about
// the worktree does. Both wait together.
func TestPreviewsOfDeletionsAtOnceAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const all = 10 * maxFilesAtOnce
		stop := queueing{at: make(chan string, 100), on: make(chan struct{})}
		rg := newRig(t, func(c *Config, g *gateway.Config) {
			stop.Catalogue = g.Catalogue
			g.Catalogue = stop
			c.Limits.FileRequests = all
		})
		rg.project(nil)
		of := "/api/session/" + rg.create()
		answers := make(chan int, 2*all)
		get := func(token, path string) { rg.getLater(token, of+path, answers) }
		greedy, other := rg.mint(auth.Read), rg.mint(auth.Read)
		for range all {
			get(greedy, "/deletion")
		}
		synctest.Wait()
		if n := len(stop.at); n != maxFilesAtOnce {
			t.Errorf("%d previews were made at once, want %d", n, maxFilesAtOnce)
		}
		get(greedy, "/git")
		synctest.Wait()
		if n := len(answers); n != 0 {
			t.Errorf("%d requests did not wait", n)
		}
		get(other, "/git")
		synctest.Wait()
		if n := len(answers); n != 1 {
			t.Errorf("%d of the others were answered, want 1", n)
		}
		close(stop.on)
		codes := make(map[int]int)
		for range all + 2 {
			codes[<-answers]++
		}
		if codes[http.StatusOK] != all+1 || codes[http.StatusTooManyRequests] != 1 { // the last one of greedy is too many in a minute
			t.Errorf("got %v", codes)
		}
	})
}

// Two searches run at a time. One credential, even one for a project without
// sessions, must not take both places all the time.
func TestSearchesAndTotalsAtOnceAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := slow{at: make(chan string, 100), on: make(chan struct{})}
		rg := newRig(t, func(_ *Config, g *gateway.Config) {
			all.Catalogue = g.Catalogue
			g.Catalogue, g.Search = all, all
		})
		greedy, other := rg.mint(auth.Read), rg.mint(auth.Read)
		answered := make(chan int, 100)
		get := func(token, path string) { rg.getLater(token, path, answered) }
		for range 10 {
			get(greedy, "/api/search?q=greedy")
			get(greedy, "/api/usage")
		}
		get(other, "/api/search?q=other")
		synctest.Wait()
		running := make(map[string]int)
		for range len(all.at) {
			running[<-all.at]++
		}
		if want := map[string]int{"greedy": maxSearchesAtOnce, "usage": maxTotalsAtOnce, "other": 1}; !maps.Equal(running, want) {
			t.Errorf("at once run %v, want %v", running, want)
		}
		close(all.on)
		for range 21 {
			if code := <-answered; code != http.StatusOK {
				t.Errorf("got %d", code)
			}
		}
	})
}
