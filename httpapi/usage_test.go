package httpapi

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/runnel-dev/runnel/gateway"
)

// spend runs a turn whose agent reports a cost of a quarter dollar.
func (rg *rig) spend(id string) {
	rg.t.Helper()
	rg.events(id, rg.prompt(id, `{"steps":[{"usage":{"costUsd":9}},{"usage":{"costUsd":0.25}}]}`))
}

func (rg *rig) createIn(dir string) string {
	rg.t.Helper()
	body, _ := json.Marshal(map[string]string{"cliType": "script", "projectDir": dir})
	return call[createAnswer](rg, "POST", "/api/session/create", string(body), 201).SessionID
}

func (rg *rig) usage(query string) gateway.UsageReport {
	rg.t.Helper()
	return call[gateway.UsageReport](rg, "GET", "/api/usage"+query, "", 200)
}

// summary returns the groups of a report as text.
func summary(u gateway.UsageReport) string {
	out := fmt.Sprintf("%d turns $%.2f", u.Total.Turns, u.Total.CostUSD)
	for _, g := range u.Groups {
		out += fmt.Sprintf(" | %s: %d turns $%.2f", g.Key, g.Turns, g.CostUSD)
	}
	return out
}

func TestUsageIsTotalled(t *testing.T) {
	rg := newRig(t)
	if u := rg.usage(""); u.Total.Turns != 0 || u.Groups == nil || len(u.Groups) != 0 {
		t.Errorf("without a turn: %+v", u)
	}
	other := t.TempDir()
	one, two := rg.create(), rg.createIn(other)
	rg.spend(one)
	rg.spend(one)
	rg.spend(two)
	call[gateway.Status](rg, "POST", "/api/session/"+one+"/rename", `{"title":"Expensive"}`, 200)

	u := rg.usage("?by=session")
	if g := u.Groups[0]; g.Title != "Expensive" || g.Usage.InputTokens != 2 { // the scripted agent's own count at the end of a turn is one token a word
		t.Errorf("%+v", g)
	}
	today := time.Now().UTC().Format(time.DateOnly)
	for query, want := range map[string]string{
		"?by=session":                  "3 turns $0.75 | " + one + ": 2 turns $0.50 | " + two + ": 1 turns $0.25",
		"?by=project":                  "3 turns $0.75 | " + rg.dir + ": 2 turns $0.50 | " + other + ": 1 turns $0.25",
		"?by=agent":                    "3 turns $0.75 | script: 3 turns $0.75",
		"":                             "3 turns $0.75 | " + today + ": 3 turns $0.75",
		"?sessionId=" + two:            "1 turns $0.25 | " + today + ": 1 turns $0.25",
		"?by=project&projectDir=/none": "0 turns $0.00",
		"?by=agent&projectDir=" + url.QueryEscape(other+"/."): "1 turns $0.25 | script: 1 turns $0.25",
		"?to=2020-01-01": "0 turns $0.00",
		"?by=agent&from=" + today + "&to=" + time.Now().UTC().AddDate(0, 0, 1).Format(time.DateOnly): "3 turns $0.75 | script: 3 turns $0.75",
		"?by=agent&cliType=script": "3 turns $0.75 | script: 3 turns $0.75",
	} {
		if got := summary(rg.usage(query)); got != want {
			t.Errorf("%s:\n got %s\nwant %s", query, got, want)
		}
	}
	if u := rg.usage("?by=session&limit=1"); !u.More || len(u.Groups) != 1 || u.Total.Turns != 3 {
		t.Errorf("limited: %+v", u)
	}
	for query, want := range map[string]string{
		"?by=colour": "400 INVALID_REQUEST", "?from=yesterday": "400 INVALID_REQUEST", "?to=2026-13-01": "400 INVALID_REQUEST",
		"?limit=-1": "400 INVALID_REQUEST", "?cliType=none": "400 UNSUPPORTED_CLI_TYPE", "?sessionId=none": "404 SESSION_NOT_FOUND",
	} {
		if w := rg.do("GET", "/api/usage"+query, ""); fmt.Sprint(w.Code, " ", code(w)) != want {
			t.Errorf("%s: %d %s, want %s", query, w.Code, w.Body, want)
		}
	}
	rg.answers(theDocument(t), "GET", "/api/usage", "/api/usage?by=session", "")
}

// A token of one project gets the totals of that project only.
func TestUsageOfOtherProjectsIsInvisible(t *testing.T) {
	rg := newRig(t)
	other := t.TempDir()
	mine, theirs := rg.create(), rg.createIn(other)
	rg.spend(mine)
	rg.spend(theirs)
	rg.token = rg.bind(rg.dir, "read")
	for _, query := range []string{"", "?by=session", "?by=project", "?by=agent", "?projectDir=" + url.QueryEscape(rg.dir)} {
		u := rg.usage(query)
		if text := fmt.Sprint(u); u.Total.Turns != 1 || strings.Contains(text, theirs) || strings.Contains(text, other) {
			t.Errorf("%s: %s", query, text)
		}
	}
	if u := rg.usage("?by=project&projectDir=" + url.QueryEscape(other)); u.Total.Turns != 0 || len(u.Groups) != 0 {
		t.Errorf("another project: %+v", u)
	}
	if w := rg.do("GET", "/api/usage?sessionId="+theirs, ""); w.Code != 404 {
		t.Errorf("a session of another project: %d %s", w.Code, w.Body)
	}
}
