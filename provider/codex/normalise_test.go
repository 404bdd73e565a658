package codex

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/runnel-dev/runnel/internal/recordtest"
)

// normaliser replaces the ids, times and durations in a recording, which differ
// each time. Equal values get equal replacements, and times keep their order.
type normaliser struct {
	uuids recordtest.UUIDs
	times map[string]string
}

var (
	milliRE   = regexp.MustCompile(`"(startedAtMs|completedAtMs|emittedAtMs)":(\d{13})`)
	secondRE  = regexp.MustCompile(`"(startedAt|completedAt|createdAt|updatedAt|recencyAt)":\d{10}`)
	spanRE    = regexp.MustCompile(`"durationMs":\d+`)
	portRE    = regexp.MustCompile(`127\.0\.0\.1:\d+`)
	processRE = regexp.MustCompile(`"processId":"\d+"`)
	rolloutRE = regexp.MustCompile(`sessions/20\d\d/\d\d/\d\d/rollout-20\d\d-\d\d-\d\dT\d\d-\d\d-\d\d`)
	dateRE    = regexp.MustCompile(`20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	serverRE  = regexp.MustCompile(`"userAgent":"[^"]*"`)
)

// newNormaliser returns a normaliser for a recording with these texts, in
// order.
func newNormaliser(texts []string) *normaliser {
	n := &normaliser{uuids: recordtest.NewUUIDs(texts), times: map[string]string{}}
	var times []string
	for _, text := range texts {
		for _, m := range milliRE.FindAllStringSubmatch(text, -1) {
			times = append(times, m[2])
		}
	}
	slices.Sort(times)
	for i, at := range slices.Compact(times) {
		n.times[at] = strconv.FormatInt(fixtureStart.UnixMilli()+int64(i), 10)
	}
	return n
}

func (n *normaliser) line(line string) string {
	line = shorten(line)
	line = n.uuids.Replace(line)
	line = milliRE.ReplaceAllStringFunc(line, func(s string) string {
		m := milliRE.FindStringSubmatch(s)
		return `"` + m[1] + `":` + n.times[m[2]]
	})
	line = secondRE.ReplaceAllString(line, `"$1":`+strconv.FormatInt(fixtureStart.Unix(), 10))
	line = spanRE.ReplaceAllString(line, `"durationMs":1`)
	line = processRE.ReplaceAllString(line, `"processId":"1"`)
	line = rolloutRE.ReplaceAllString(line, "sessions/2026/01/01/rollout-2026-01-01T00-00-00")
	line = dateRE.ReplaceAllString(line, "2026-01-01T00:00:00Z")
	line = serverRE.ReplaceAllString(line, `"userAgent":"runnel"`)
	return portRE.ReplaceAllString(line, "127.0.0.1:1")
}

// shorten drops long content that no test needs: most models of model lists,
// and the instructions that modes add for the model.
func shorten(line string) string {
	if !strings.Contains(line, `"supportedReasoningEfforts"`) && !strings.Contains(line, `"developer_instructions"`) {
		return line
	}
	var o map[string]any
	if json.Unmarshal([]byte(line), &o) != nil {
		return line
	}
	cutDown(o)
	b, err := json.Marshal(o)
	if err != nil {
		return line
	}
	return string(b)
}

func cutDown(v any) {
	switch v := v.(type) {
	case map[string]any:
		for k, inner := range v {
			switch list, ok := inner.([]any); {
			case k == "developer_instructions":
				v[k] = nil
			case ok && k == "data" && len(list) > 0:
				v[k] = slices.DeleteFunc(list, func(m any) bool {
					o, ok := m.(map[string]any)
					return ok && o["model"] != "gpt-5.5" && o["model"] != "gpt-6.1-sol"
				})
			case k == "availabilityNux" || k == "serviceTiers":
				v[k] = nil
			default:
				cutDown(inner)
			}
		}
	case []any:
		for _, inner := range v {
			cutDown(inner)
		}
	}
}
