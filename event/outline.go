package event

import "encoding/json"

// maxListedChanges is the maximum size of the changes of an approval in a list,
// in bytes of JSON.
const maxListedChanges = 128 << 10

// Outline returns a as lists of sessions and statuses have it: without the texts
// of its changes, if the changes are long.
func (a Approval) Outline() Approval {
	left := maxListedChanges
	if len(a.Changes) == 0 || changesWeight(a.Changes) <= left && fits(a.Changes, &left) {
		return a
	}
	list := a.Changes
	a.Changes = make([]Change, 0, len(list))
	for _, c := range list {
		c = Change{Path: c.Path, Kind: c.Kind, MovedTo: c.MovedTo, Hunks: []Hunk{}}
		if fits(c, &left) {
			a.Changes = append(a.Changes, c)
		}
	}
	return a
}

// Listed returns the size of a in lists of sessions and statuses, in bytes.
func (a Approval) Listed() int {
	data, _ := json.Marshal(a.Outline()) // cannot fail once a is in an event: its arguments are JSON
	return len(data)
}

// fits reports whether v, as JSON, has at most left bytes, and takes them if so.
func fits(v any, left *int) bool {
	data, err := json.Marshal(v)
	if err != nil || len(data) > *left {
		return false
	}
	*left -= len(data)
	return true
}
