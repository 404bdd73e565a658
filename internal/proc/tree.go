package proc

import (
	"maps"
	"os"
	"slices"
	"sync"
	"time"
)

const (
	sweepFor   = 5 * time.Second // a process that has not ended by then is stuck in the kernel
	firstPause = time.Millisecond
	longPause  = 20 * time.Millisecond
	lookTries  = 20
	blindFor   = 200 * time.Millisecond // a sweep that cannot read the process table gives up after this
)

// identity identifies one process permanently; the system reuses ids.
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

// tree is the set of a child's known descendants. The system does not record
// the original parent of an orphan, so a descendant stays in the set until it
// has ended.
type tree struct {
	root  entry
	mark  string // NAME=value, or empty
	self  entry  // this process; processes in its session are never killed
	fence *fence // or nil
	sole  bool   // every process that this process adopts is a descendant; marks are not checked

	orphans bool // every process that this process adopted is a descendant, although it runs other children too

	mu       sync.Mutex
	known    map[identity]bool // value: whether linked; see member
	unmarked map[identity]bool // seen without the mark, which a running process cannot acquire
	ended    map[identity]bool // seen dead and not yet removed from the table
	sessions map[int]bool      // sessions seen by the last look; their ids cannot be reused while a member lives
	buf      []byte            // buffer for reading environments
}

func newTree(pid int, mark string, f *fence, sole bool) *tree {
	t := &tree{
		root:     entry{identity: identity{pid: pid}},
		mark:     mark,
		fence:    f,
		sole:     sole,
		known:    make(map[identity]bool),
		unmarked: make(map[identity]bool),
		ended:    make(map[identity]bool),
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

// rootSession returns the child's session. Its id cannot be reused before the
// child is reaped.
func (t *tree) rootSession() map[int]bool {
	if ownSessions {
		return map[int]bool{t.root.pid: true}
	}
	return map[int]bool{}
}

// look updates the known descendants and returns the living ones. It retries
// before it reports none, to be as sure as possible. sees is false if the
// process table cannot be read.
func (t *tree) look() (living []member, sees bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for try := 1; ; try++ {
		rows := make(map[int]entry)
		for round, complete := 0, false; !complete && round < lookTries; round++ {
			// Any process of our user can lower our limits, so that no file can
			// be opened.
			if complete, sees = survey(rows, t.ended, t.root.start); !sees {
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

// lookIn performs one look in a given process table.
func (t *tree) lookIn(rows map[int]entry) (living []member, sure, sees bool) {
	if t.orphans {
		orphans, err := adopted() // read each time: a process that forks and ends leaves a new orphan
		if err != nil {
			return nil, false, false
		}
		for _, o := range orphans {
			t.known[o] = true
		}
	}
	table := slices.Collect(maps.Values(rows))
	ended, unmarked := make(map[identity]bool), make(map[identity]bool)
	for _, e := range table {
		if e.dead {
			ended[e.identity] = true
		}
		if t.unmarked[e.identity] {
			unmarked[e.identity] = true
		}
	}
	t.ended, t.unmarked = ended, unmarked // drops processes that have disappeared

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

// finding is the result of searching a process's environment.
type finding int

const (
	unknown finding = iota // it could not be read, or not yet
	absent
	present
)

func (t *tree) hasMark(e entry) finding {
	if t.mark == "" || t.sole || e.dead || t.unmarked[e.identity] {
		return absent
	}
	if t.buf == nil {
		t.buf = make([]byte, 256<<10)
	}
	found := findMark(e.pid, t.mark, t.buf)
	if found == absent {
		t.unmarked[e.identity] = true
	}
	return found
}

// member is a descendant.
type member struct {
	entry
	linked bool // linked by parenthood or session, now or earlier; false if found by the mark alone, which can be copied
}

// members returns the descendants in table: known ones, those in a session of
// the tree, those with the mark, and the children of all these and of the
// child. A process leaves its session only by founding a new one. If one linked
// descendant is in a session, all its members are therefore descendants.
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
			if !m.linked && !isChild && !isKnown && (asked || !marked(e)) { // checked once per process, since it reads a file
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

// possible excludes processes that cannot be descendants.
func (t *tree) possible(e entry) bool {
	if ownSessions && (e.sid == 0 || e.sid == t.self.sid) { // a kernel thread, a process outside the namespace, or one in our session
		return false
	}
	return e.pid > 1 && e.pid != t.self.pid && e.start >= t.root.start
}

// sweep kills the descendants repeatedly until none is left. It returns how
// many remain, or 1 if the table cannot be read. It requires two looks without
// descendants, because process ids wrap around.
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
		endGroups(living, t.root.pid)
		for _, m := range living {
			kill(m.entry)
		}
		if sees && time.Now().After(deadline) {
			return len(living)
		}
		time.Sleep(pause)
	}
}

// endGroups kills the process groups of members, except that of the process
// root. A group is within one session. It kills a group only while a member runs,
// because the system may reuse the id of an empty group.
func endGroups(members []member, root int) {
	ended := map[int]bool{1: true, root: true}
	for _, m := range members {
		if !m.linked || m.pgid < 1 || ended[m.pgid] {
			continue
		}
		if now, ok := process(m.pid); ok && now.identity == m.identity && now.pgid == m.pgid {
			ended[m.pgid] = true
			endGroup(m.pgid)
		}
	}
}
