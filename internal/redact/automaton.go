package redact

// A set finds any of several strings in one pass (Aho and Corasick's
// automaton).
type set struct {
	root  [256]int32 // first byte → node
	nodes []node     // nodes[0] is the root
	wraps bool       // the strings may contain line breaks
}

// A node stands for a common prefix of some of the strings. Links are indexes;
// 0 means none.
type node struct {
	label          byte
	child, sibling int32
	fail           int32 // the longest proper suffix of the prefix that is a prefix too
	depth          int32 // length of the prefix
	out            int32 // length of the longest string that ends here
	shortest       int32 // length of the shortest string with this prefix
}

func newSet(words []string, wraps bool) *set {
	most := 1
	for _, w := range words {
		most += len(w)
	}
	s := &set{nodes: make([]node, 1, most), wraps: wraps}
	for _, w := range words {
		s.insert(w)
	}
	s.link()
	return s
}

func (s *set) insert(w string) {
	at := int32(0)
	for i := range len(w) {
		next := s.child(at, w[i])
		if next == 0 {
			next = int32(len(s.nodes))
			s.nodes = append(s.nodes, node{label: w[i], depth: int32(i + 1), shortest: int32(len(w))})
			if at == 0 {
				s.root[w[i]] = next
			} else {
				s.nodes[next].sibling = s.nodes[at].child
				s.nodes[at].child = next
			}
		}
		at = next
		s.nodes[at].shortest = min(s.nodes[at].shortest, int32(len(w)))
	}
	s.nodes[at].out = int32(len(w))
}

func (s *set) child(at int32, b byte) int32 {
	if at == 0 {
		return s.root[b]
	}
	for c := s.nodes[at].child; c != 0; c = s.nodes[c].sibling {
		if s.nodes[c].label == b {
			return c
		}
	}
	return 0
}

// link sets the fail links, in order of depth.
func (s *set) link() {
	var queue []int32
	for _, n := range s.root {
		if n != 0 {
			queue = append(queue, n)
		}
	}
	for i := 0; i < len(queue); i++ {
		at := queue[i]
		for c := s.nodes[at].child; c != 0; c = s.nodes[c].sibling {
			f := s.next(s.nodes[at].fail, s.nodes[c].label)
			s.nodes[c].fail = f
			s.nodes[c].out = max(s.nodes[c].out, s.nodes[f].out)
			queue = append(queue, c)
		}
	}
}

// next returns the node for the longest prefix that is a suffix of the text up
// to and including b.
func (s *set) next(at int32, b byte) int32 {
	for at != 0 {
		if c := s.child(at, b); c != 0 {
			return c
		}
		at = s.nodes[at].fail
	}
	return s.root[b]
}

// A prefix of a secret at the end of a text counts as a secret if it has at
// least partial bytes, or at least half of the secret and leastPartial bytes.
const (
	partial      = 12
	leastPartial = 6
)

// cutOff returns the length of the longest prefix of a string at the end of the
// text so far, if it counts as a secret when the text is cut there; else 0.
func (s *set) cutOff(at int32) int {
	for ; at != 0; at = s.nodes[at].fail {
		if n := s.nodes[at]; n.depth >= partial || n.depth >= leastPartial && 2*n.depth >= n.shortest {
			return int(n.depth)
		}
	}
	return 0
}

// ellipsis marks the place where a text was shortened.
const ellipsis = "…"

// maxBreaks bounds the bytes of a line break within a string ("\r
// ").
const maxBreaks = 2

// A matcher is the stage that removes the strings of a set from a text.
type matcher struct {
	set    *set
	state  int32
	held   []held // bytes that may belong to an unfinished string, as many as the depth of state
	head   int    // held[:head] was already passed on
	breaks []byte // line breaks after held
	hide   int    // number of next bytes that belong to a found string
	hidden bool   // the last byte belonged to a found string
	dots   int    // number of bytes of an ellipsis after held
}

type held struct {
	b      byte
	n      uint8 // number of line break bytes before b
	breaks [maxBreaks]byte
	covers int32 // length of the longest found string that begins here
}

func (m *matcher) append(dst, p []byte) []byte {
	for i := 0; i < len(p); {
		if m.state == 0 {
			j := i
			for j < len(p) && m.set.root[p[j]] == 0 {
				j++
			}
			if j > i {
				dst = append(dst, p[i:j]...)
				m.hidden = false
				i = j
				continue
			}
		}
		dst = m.take(dst, p[i])
		i++
	}
	return dst
}

// take advances the state by b. A prefix of a string before an ellipsis is
// treated as at the end of a text.
func (m *matcher) take(dst []byte, b byte) []byte {
	switch {
	case b == ellipsis[m.dots] && (m.dots > 0 || m.set.child(m.state, b) == 0 && m.set.cutOff(m.state) > 0):
		if m.dots++; m.dots < len(ellipsis) {
			return dst
		}
		m.coverCutOff()
		dst, b = m.takeDots(dst, m.dots-1), ellipsis[m.dots-1]
		m.dots = 0
	case m.dots > 0:
		dst = m.takeDots(dst, m.dots)
		m.dots = 0
	}
	return m.step(dst, b)
}

// takeDots processes the first n bytes of a held ellipsis as ordinary text.
func (m *matcher) takeDots(dst []byte, n int) []byte {
	for i := range n {
		dst = m.step(dst, ellipsis[i])
	}
	return dst
}

// coverCutOff marks the held prefix of a string as a secret.
func (m *matcher) coverCutOff() {
	if n := m.set.cutOff(m.state); n > 0 {
		first := &m.held[len(m.held)-n]
		first.covers = max(first.covers, int32(n))
	}
}

func (m *matcher) step(dst []byte, b byte) []byte {
	if m.set.wraps && (b == '\n' || b == '\r') {
		if m.state != 0 && len(m.breaks) < maxBreaks {
			m.breaks = append(m.breaks, b)
			return dst
		}
		m.state = 0
		return m.plain(m.release(dst), b)
	}
	m.state = m.set.next(m.state, b)
	h := held{b: b, n: uint8(len(m.breaks))}
	copy(h.breaks[:], m.breaks)
	m.breaks = m.breaks[:0]
	m.held = append(m.held, h)
	if out := m.set.nodes[m.state].out; out > 0 {
		first := &m.held[len(m.held)-int(out)]
		first.covers = max(first.covers, out)
	}
	return m.release(dst)
}

// release passes on the bytes that can no longer become part of a string.
func (m *matcher) release(dst []byte) []byte {
	for depth := int(m.set.nodes[m.state].depth); len(m.held)-m.head > depth; m.head++ {
		h := m.held[m.head]
		m.hide = max(m.hide, int(h.covers))
		inside := m.hide > 0
		if !inside || !m.hidden {
			dst = m.spill(dst, h.breaks[:h.n])
		}
		if !inside {
			dst = m.plain(dst, h.b)
			continue
		}
		m.hide--
		if !m.hidden {
			dst = append(dst, Marker...)
		}
		m.hidden = true
	}
	switch {
	case m.head == len(m.held):
		m.held, m.head = m.held[:0], 0
	case m.head > len(m.held)/2:
		m.held, m.head = m.held[:copy(m.held, m.held[m.head:])], 0
	}
	if m.state == 0 && len(m.breaks) > 0 {
		dst = m.spill(dst, m.breaks)
		m.breaks = m.breaks[:0]
	}
	return dst
}

func (m *matcher) spill(dst, breaks []byte) []byte {
	for _, b := range breaks {
		dst = m.plain(dst, b)
	}
	return dst
}

func (m *matcher) plain(dst []byte, b byte) []byte {
	m.hidden = false
	return append(dst, b)
}

func (m *matcher) end(dst []byte) []byte {
	m.coverCutOff()
	dst = m.takeDots(dst, m.dots)
	m.dots, m.state = 0, 0
	dst = m.release(dst)
	m.hide, m.hidden = 0, false
	return dst
}
