package recordtest

import (
	"bytes"
	"slices"

	"github.com/runnel-dev/runnel"
)

// Deepened returns lines in which the parameters of every message of the agent
// have one more member, which is nested deeper than JSON decoders accept.
func Deepened(lines []runnel.Line) []runnel.Line {
	const levels = 20_000
	params := []byte(`"params":{`)
	deeper := slices.Concat(params, []byte(`"deeper":`), bytes.Repeat([]byte{'['}, levels), bytes.Repeat([]byte{']'}, levels), []byte{','})
	deep := slices.Clone(lines)
	for i, l := range deep {
		if l.Dir == runnel.DirOut && !bytes.Contains(l.Text, []byte(`"params":{}`)) {
			deep[i].Text = bytes.Replace(l.Text, params, deeper, 1)
		}
	}
	return deep
}
