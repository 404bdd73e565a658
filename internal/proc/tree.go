package proc

import (
	"maps"
	"os"
	"slices"
	"sync"
	"time"
)

const (
	sweepFor   = 5 * time.Second // what does not end in that time is stuck in the kernel
	firstPause = time.Millisecond
	longPause  = 20 * time.Millisecond
	lookTries  = 20
	blindFor   = 200 * time.Millisecond // after which a sweep that sees no processes gives up
)

// identity is one process for ever: a number alone is used again.
type identity struct {
	pid   int
	start uint64 // when it started, in the system's own unit
}

// entry is one row of the process table.
type entry struct {
	identity
	ppid, pgid, sid int // 0 where the system has none
	dead            bool
}

// tree is the set of a child's descendants, as far as it can be known: the
// system itself forgets whose child an orphan was. So whoever was once seen
// stays known, until it is gone.
type tree struct {
	root  entry
	mark  string // NAME=value, or empty
	self  entry  // this process: its own session is never touched
	fence *fence // or nil
	sole  bool   // whoever falls to this process is a descendant; marks are not asked for

	orphans bool // whoever fell to this process is one, though it runs others, too

	mu        sync.Mutex
	known     map[identity]bool // whether linked; see member
	strangers map[identity]bool // seen without the mark, which they cannot get any more
	ended     map[identity]bool // seen dead, and not yet gone
	sessions  map[int]bool      // of those seen by the last look: a number is safe from reuse for that long
	buf       []byte            // for environments
}

func newTree(pid int, mark string, f *fence, sole bool) *tree {
	t := &tree{
		root:      entry{identity: identity{pid: pid}},
		mark:      mark,
		fence:     f,
		sole:      sole,
		known:     make(map[identity]bool),
		strangers: make(map[identity]bool),
		ended:     make(map[identity]bool),
	}
	if e, ok := process(pid); ok {
		t.root = e
	}
	if e, ok := process(os.Getpid()); ok {
		t.self = e
	}
	t.sessions = t.rootSession()
	return t
}

// rootSession is the child's session: its number cannot be used again before
// the child is reaped.
func (t *tree) rootSession() map[int]bool {
	if ownSessions {
		return map[int]bool{t.root.pid: true}
	}
	return map[int]bool{}
}

// look remembers the present descendants and returns those that live. That
// there are none it says only when it is sure, as far as it can be. It reports
// false if the process table cannot be read.
func (t *tree) look() (living []member, sees bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for try := 1; ; try++ {
		rows := make(map[int]entry)
		for round, complete := 0, false; !complete && round < lookTries; round++ {
			// Any process of our user can lower our limits, so that no file opens.
			if complete, sees = survey(rows, t.ended); !sees {
				return nil, false
			}
		}
		if _, sees = rows[os.Getpid()]; !sees {
			return nil, false
		}
		living, sure, sees := t.lookIn(rows)
		if !sees {
			return nil, false
		}
		if len(living) > 0 || sure || try == lookTries {
			return living, true
		}
		time.Sleep(firstPause)
	}
}

// lookIn is look in a process table, once.
func (t *tree) lookIn(rows map[int]entry) (living []member, sure, sees bool) {
	if t.orphans {
		orphans, err := adopted() // each time anew: who forks and ends leaves another one
		if err != nil {
			return nil, false, false
		}
		for _, o := range orphans {
			t.known[o] = true
		}
	}
	table := slices.Collect(maps.Values(rows))
	ended, strangers := make(map[identity]bool), make(map[identity]bool)
	for _, e := range table {
		if e.dead {
			ended[e.identity] = true
		}
		if t.strangers[e.identity] {
			strangers[e.identity] = true
		}
	}
	t.ended, t.strangers = ended, strangers // without those that are gone

	sure = true
	found := t.members(table, func(e entry) bool {
		has := t.hasMark(e)
		sure = sure && has != unknown
		return has == present
	})
	clear(t.known)
	t.sessions = t.rootSession()
	for _, m := range found {
		t.known[m.identity] = m.linked
		if m.linked && m.sid != 0 {
			t.sessions[m.sid] = true
		}
		if !m.dead {
			living = append(living, m)
		}
	}
	return living, sure, true
}

// finding is what a look at a process's environment gave.
type finding int

const (
	unknown finding = iota // it could not be read, or not yet
	absent
	present
)

func (t *tree) hasMark(e entry) finding {
	if t.mark == "" || t.sole || e.dead || t.strangers[e.identity] {
		return absent
	}
	if t.buf == nil {
		t.buf = make([]byte, 256<<10)
	}
	found := findMark(e.pid, t.mark, t.buf)
	if found == absent {
		t.strangers[e.identity] = true
	}
	return found
}

// member is a descendant.
type member struct {
	entry
	linked bool // the system says so, or once did; false if only the mark does, and an environment can be copied
}

// members returns the descendants in table: those known, those in a session of
// the tree, those that carry the mark, and the children of all of these and of
// the child. A session has one founder and is left only for a new one, so that
// where one linked descendant is, all others are descendants too.
func (t *tree) members(table []entry, marked func(entry) bool) []member {
	ours := map[int]member{t.root.pid: {t.root, true}}
	if t.sole {
		ours[t.self.pid] = member{t.self, true}
	}
	sessions := maps.Clone(t.sessions)
	var found []member
	for more, asked := true, false; more; asked = true {
		more = false
		for _, e := range table {
			if _, done := ours[e.pid]; done || !t.possible(e) {
				continue
			}
			m := member{entry: e, linked: sessions[e.sid] || t.known[e.identity]}
			parent, isChild := ours[e.ppid]
			isChild = isChild && e.start >= parent.start
			m.linked = m.linked || isChild && parent.linked
			_, isKnown := t.known[e.identity]
			if !m.linked && !isChild && !isKnown && (asked || !marked(e)) { // asked once for each: it costs a file
				continue
			}
			if m.linked && e.sid != 0 {
				sessions[e.sid] = true
			}
			ours[e.pid] = m
			found = append(found, m)
			more = true
		}
	}
	return found
}

// possible excludes those that cannot be descendants whatever the numbers say.
func (t *tree) possible(e entry) bool {
	if ownSessions && (e.sid == 0 || e.sid == t.self.sid) { // the kernel's, from outside, or next to us
		return false
	}
	return e.pid > 1 && e.pid != t.self.pid && e.start >= t.root.start
}

// sweep kills the descendants, again and again until none is left, and returns
// how many are left even so; 1 if that cannot be seen. It must see none twice,
// because numbers begin anew at some point.
func (t *tree) sweep() (left int) {
	deadline, seen := time.Now().Add(sweepFor), time.Now()
	for clean, pause := 0, firstPause; ; pause = min(2*pause, longPause) {
		living, sees := t.look()
		if !sees && time.Since(seen) > blindFor {
			return 1
		} else if sees {
			seen = time.Now()
		}
		if len(living) > 0 || !sees {
			clean = 0
		} else if clean++; clean == 2 {
			return 0
		}
		t.fence.kill()
		for _, m := range living {
			kill(m.entry)
			if m.linked && m.pgid > 1 && m.pgid != t.root.pid { // a group is within one session
				endGroup(m.pgid)
			}
		}
		if sees && time.Now().After(deadline) {
			return len(living)
		}
		time.Sleep(pause)
	}
}
