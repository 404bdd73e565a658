package claude

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/runnel-dev/runnel/internal/recordtest"
)

// normaliser replaces the values of a recording that differ each time: ids,
// times and durations. The same value always gets the same replacement. It also
// shortens the lists that the agent repeats in each turn.
type normaliser struct {
	uuids recordtest.UUIDs
	tasks map[string]string
}

var (
	timeRE     = regexp.MustCompile(`20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z`)
	durationRE = regexp.MustCompile(`"([A-Za-z_]+(?:_ms|Ms|MS)|estimated_tokens|estimated_tokens_delta|elapsed_time_seconds|start_time|end_time|startTime|mtimeMs|pid)":\s*[0-9.]+`)
	portRE     = regexp.MustCompile(`127\.0\.0\.1:\d+`)
	taskRE     = regexp.MustCompile(`"(?:task_id|run_id|taskId|backgroundTaskId|agentId|agent_id)":\s*"([a-z0-9-]{6,})"`)
	slugRE     = regexp.MustCompile(`"slug":\s*"[a-z-]+"`)
)

// newNormaliser returns a normaliser for the ids in the texts of a recording.
// It numbers the ids in the order of the texts.
func newNormaliser(texts []string) *normaliser {
	n := &normaliser{uuids: recordtest.NewUUIDs(texts), tasks: map[string]string{}}
	for _, text := range texts {
		for _, m := range taskRE.FindAllStringSubmatch(text, -1) {
			if n.tasks[m[1]] == "" {
				n.tasks[m[1]] = fmt.Sprintf("task%04d", len(n.tasks)+1)
			}
		}
	}
	return n
}

// line normalises the k-th line of a recording; its times become k seconds
// after fixtureStart.
func (n *normaliser) line(line string, k int) string {
	line = shorten(line)
	line = n.uuids.Replace(line)
	line = timeRE.ReplaceAllString(line, fixtureStart.Add(time.Duration(k)*time.Second).Format("2006-01-02T15:04:05.000Z"))
	line = durationRE.ReplaceAllString(line, `"$1":1`)
	line = slugRE.ReplaceAllString(line, `"slug":"a-slug"`)
	for id, task := range n.tasks {
		line = strings.ReplaceAll(line, id, task)
	}
	return portRE.ReplaceAllString(line, "127.0.0.1:1")
}

// shorten shortens the long lists in frames about the session and removes the
// content of attachments.
func shorten(line string) string {
	var o map[string]any
	if json.Unmarshal([]byte(line), &o) != nil {
		return line
	}
	switch {
	case o["type"] == "system" && o["subtype"] == "init":
		clip(o)
	case o["type"] == "attachment":
		if a, ok := o["attachment"].(map[string]any); ok && a["type"] != "queued_command" {
			o["attachment"] = map[string]any{"type": a["type"]}
			delete(o, "rendered")
		}
	case o["type"] == "control_response":
		if r, ok := o["response"].(map[string]any); ok && r["response"] != nil {
			in, ok := r["response"].(map[string]any)
			if !ok || in["commands"] == nil {
				return line
			}
			r["response"] = map[string]any{"commands": in["commands"], "models": in["models"]}
			clip(r["response"].(map[string]any))
		}
	default:
		return line
	}
	b, err := json.Marshal(o)
	if err != nil {
		return line
	}
	return string(b)
}

func clip(o map[string]any) {
	for k, v := range o {
		if list, ok := v.([]any); ok {
			o[k] = list[:min(len(list), 2)]
		}
	}
	delete(o, "memory_paths")
	delete(o, "messaging_socket_path")
}

// keepStored reports whether a stored line is part of the conversation. The
// other lines are the agent's internal records, which take most of a file.
func keepStored(line string) bool {
	var o struct{ Type string }
	if json.Unmarshal([]byte(line), &o) != nil {
		return true
	}
	return !strings.HasPrefix(o.Type, "api-") && !slices.Contains([]string{
		"queue-operation", "file-history-snapshot", "file-history-delta", "atis-latch", "tools-used", "cost-state", "mode",
	}, o.Type)
}
