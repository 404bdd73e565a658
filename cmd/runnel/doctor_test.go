package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func TestDoctorPrintsNoSecretAndNothingThatATerminalObeys(t *testing.T) {
	const key = "sk-ant-api03-0123456789abcdefghijklmnopqrstuvwxyz0123456789"
	const hostile = "agent\u009b31m \u202e/"
	for _, asJSON := range []bool{false, true} {
		var out bytes.Buffer
		a := &app{out: &out, secrets: knownSecrets(nil, []string{"ANTHROPIC_API_KEY=" + key})}
		d := &diagnosis{}
		d.add(finding{"agents", "claude-code", warning, hostile + key, "run " + hostile + key})
		if err := a.printDiagnosis(d, asJSON); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); strings.Contains(got, key) || strings.ContainsFunc(got, unseen) {
			t.Errorf("JSON %v: printed %q", asJSON, got)
		}
		var again diagnosis
		if asJSON && (json.Unmarshal(out.Bytes(), &again) != nil || !strings.HasPrefix(again.Findings[0].Detail, hostile)) {
			t.Errorf("a program reads %q", again.Findings)
		}
	}
}
