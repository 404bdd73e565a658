package conversations

import (
	"context"
	"slices"
	"time"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/internal/filewatch"
)

const (
	// maxWatched bounds the watched directories of a place; see
	// [filewatch.New].
	maxWatched = 1024
	// coalesce is how long the index waits after an event for further ones.
	coalesce = 200 * time.Millisecond
	// watchShare is the pause after reading, as a multiple of the time that it
	// took.
	watchShare = 9
	// unwatchedEvery is how often the index compares files of which the system
	// does not report every change.
	unwatchedEvery = time.Minute
	// orderedTime is how long the index waits to find out whether it can wait
	// for events.
	orderedTime = 5 * time.Second
)

// Events describes how an Index notices changes of files.
type Events struct {
	Directories int             // watched directories
	Missing     []MissingEvents // agents whose files are also compared once a minute
}

// MissingEvents describes why the system does not report every change of an
// agent's conversations.
type MissingEvents struct {
	CLIType string
	Left    int   // directories beyond the bound of watched directories
	Err     error // why files cannot be watched
}

// A watchedPlace is a place of a source.
type watchedPlace struct {
	source *source
	shared bool
}

// watchedPlaces returns the places of all sources.
func watchedPlaces(sources []*source) (places []filewatch.Place, of []watchedPlace) {
	for _, s := range sources {
		if s.places == nil {
			continue
		}
		for _, p := range s.places.StoredPlaces() {
			places = append(places, filewatch.Place{Dir: p.Dir, Pattern: p.Pattern})
			of = append(of, watchedPlace{s, p.Shared})
		}
	}
	return places, of
}

// Watch makes the index notice changes of files until Close, and returns at
// once. The system reports changes within its limits; the index compares the
// other files once a minute. Call Watch at most once.
func (x *Index) Watch() {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.ctx.Err() == nil {
		x.work.Go(x.watch)
	}
}

func (x *Index) watch() {
	places, of := watchedPlaces(x.sources)
	if len(places) > 0 && !x.listen(places, of) {
		return
	}
	x.serve(of)
}

// listen starts to listen for events. It returns false if the index closes.
func (x *Index) listen(places []filewatch.Place, of []watchedPlace) bool {
	w, err := filewatch.New(places, maxWatched, func(c filewatch.Change) { x.noticed(of[c.Place], c.Path) })
	if err != nil {
		x.cfg.Logger.Warn("the system does not report changes of files; conversations are compared once a minute", "error", err)
		return true
	}
	x.work.Go(func() { w.Run(x.ctx) })
	select {
	case <-w.Ready():
	case <-x.ctx.Done():
		return false
	}
	limited, cancel := context.WithTimeout(x.ctx, orderedTime)
	defer cancel()
	ordered := w.Sync(limited)
	x.mu.Lock()
	defer x.mu.Unlock()
	x.watcher, x.ordered = w, ordered
	return true
}

// noticed handles an event about a file, or about any file of a place if path is
// "".
func (x *Index) noticed(at watchedPlace, path string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if path == "" || at.shared {
		at.source.again = true
	} else {
		at.source.note(path)
	}
	x.kick.Send()
}

// serve reads files after their events.
func (x *Index) serve(of []watchedPlace) {
	tick := time.NewTicker(unwatchedEvery)
	defer tick.Stop()
	logged := make(map[string]bool)
	for {
		x.trust(of, logged)
		began := time.Now()
		x.catchUp()
		x.pause(watchShare * time.Since(began))
		select {
		case <-x.kick:
			x.pause(coalesce)
		case <-tick.C:
		case <-x.ctx.Done():
			return
		}
	}
}

func (x *Index) pause(d time.Duration) {
	select {
	case <-time.After(d):
	case <-x.ctx.Done():
	}
}

// trust records of which sources the system reports every change. It logs, once
// for each source, that it does not.
func (x *Index) trust(of []watchedPlace, logged map[string]bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.watcher == nil {
		return
	}
	events := eventsOf(of, x.watcher.States())
	for _, s := range x.sources {
		at := slices.IndexFunc(events.Missing, func(m MissingEvents) bool { return m.CLIType == s.cliType })
		whole := s.places != nil && at < 0
		if whole && !s.watched {
			s.again = true // something may have changed unnoticed
		}
		if s.watched = whole; at >= 0 && !logged[s.cliType] {
			logged[s.cliType] = true
			m := events.Missing[at]
			x.cfg.Logger.Warn("the system does not report all changes of an agent's conversations; they are also compared once a minute",
				"agent", m.CLIType, "directories", m.Left, "error", m.Err)
		}
	}
	if !logged[""] {
		logged[""] = true
		x.cfg.Logger.Info("the system reports changes of conversations", "directories", events.Directories)
	}
}

// eventsOf returns the Events for the states of places.
func eventsOf(of []watchedPlace, states []filewatch.State) (e Events) {
	for i, st := range states {
		e.Directories += st.Watched
		if st.IsWhole() {
			continue
		}
		cli := of[i].source.cliType
		at := slices.IndexFunc(e.Missing, func(m MissingEvents) bool { return m.CLIType == cli })
		if at < 0 {
			at = len(e.Missing)
			e.Missing = append(e.Missing, MissingEvents{CLIType: cli})
		}
		e.Missing[at].Left += st.Left
		if st.Err != nil {
			e.Missing[at].Err = st.Err
		}
	}
	return e
}

// catchUp reads what is known to have changed, and compares the files of which
// changes are not reported and that were not compared for a minute.
func (x *Index) catchUp() {
	for range 2 { // the second time for what changed while an update ran that somebody else started
		x.mu.Lock()
		x.loadOnce()
		var running []<-chan struct{}
		for _, s := range x.sources {
			if s.files == nil {
				continue
			}
			all := s.again || !s.isKnown() && time.Since(s.walked) >= unwatchedEvery
			if s.running == nil && x.ctx.Err() == nil && (all || len(s.pending) > 0) {
				x.start(s, all)
			}
			if s.running != nil {
				running = append(running, s.running)
			}
		}
		x.mu.Unlock()
		if await(x.ctx, running) != nil || len(running) == 0 {
			return
		}
	}
}

// sync waits until the index knows of all events before the call. It returns
// false if changes may be missing.
func (x *Index) sync(ctx context.Context) bool {
	x.mu.Lock()
	w, ordered := x.watcher, x.ordered
	x.mu.Unlock()
	return ordered && w.Sync(ctx)
}

// IsWatched reports whether the system reports every change of the files of the
// kinds of agents that want selects. want is called with mu held.
func (x *Index) IsWatched(want func(cliType string) bool) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return !slices.ContainsFunc(x.sources, func(s *source) bool { return s.files != nil && !s.watched && want(s.cliType) })
}

// CheckEvents finds out, for a diagnosis, how an index of the providers'
// conversations would notice changes. It returns an error if the system reports
// none.
func CheckEvents(ctx context.Context, providers []runnel.Provider) (Events, error) {
	places, of := watchedPlaces(sourcesOf(providers))
	w, err := filewatch.New(places, maxWatched, func(filewatch.Change) {})
	if err != nil {
		return Events{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.Run(ctx)
	}()
	select {
	case <-w.Ready():
	case <-ctx.Done():
		cancel()
		<-ended
		return Events{}, ctx.Err()
	}
	states := w.States()
	cancel()
	<-ended
	return eventsOf(of, states), nil
}
