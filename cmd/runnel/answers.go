package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/internal/termtext"
)

// answers reads a program's answers to approvals. Each line names the approval
// that it answers, so text written before a question cannot answer it.
type answers struct {
	say func(format string, args ...any)

	mu    sync.Mutex // guards the rest
	asked map[string]*pending
	over  bool // no more lines are read
}

// pending is an approval that was printed or requested.
type pending struct {
	approval event.Approval
	decided  chan runnel.Decision // buffered for one decision
	answered bool
}

// decide answers the approval unless it has an answer already. The caller holds
// answers.mu.
func (p *pending) decide(d runnel.Decision) {
	if !p.answered {
		p.answered = true
		p.decided <- d
	}
}

// answer is one line from the program that answers approvals.
type answer struct {
	ApprovalID string `json:"approvalId"`
	runnel.Decision
}

func newAnswers(in io.Reader, say func(string, ...any)) *answers {
	s := &answers{say: say, asked: make(map[string]*pending)}
	go s.read(in) // runs until the input or the process ends
	return s
}

// maxAnswerLine is the maximum length of a line, in bytes. A line may contain
// changed arguments of a tool.
const maxAnswerLine = 4 << 20

// read reads lines until the input ends or a line is no valid answer. It then
// denies every open approval; approve denies later ones.
func (s *answers) read(in io.Reader) {
	sc := bufio.NewScanner(in)
	sc.Buffer(nil, maxAnswerLine)
	n := 0
	for sc.Scan() {
		n++
		if err := s.take(sc.Bytes()); err != nil {
			s.say("runnel: standard input, line %d: %s; no more answers are read, and all other approvals are denied", n, termtext.Clean(err.Error()))
			break
		}
	}
	if err := sc.Err(); err != nil {
		s.say("runnel: standard input, line %d: %s; all other approvals are denied", n+1, termtext.Clean(err.Error()))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over = true
	for _, p := range s.asked {
		p.decide(refusal(p.approval))
	}
}

// take applies one line. It returns an error if the line is no valid answer. It
// skips an answer to an approval that is not open, since the agent may have
// withdrawn the approval.
func (s *answers) take(line []byte) error {
	var a answer
	dec := json.NewDecoder(bytes.NewReader(line))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&a); err != nil || dec.More() || a.ApprovalID == "" || a.Choice == "" {
		return errors.New(`this is not an answer; want {"approvalId":"…","choice":"…","argumentsDigest":"…"}`)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p, ok := s.asked[a.ApprovalID]
	switch {
	case !ok || p.answered:
		s.say("runnel: no approval %s is open; the answer is skipped", oneLine(a.ApprovalID, 100))
		return nil
	case !slices.ContainsFunc(p.approval.Choices, func(c event.Choice) bool { return c.ID == a.Choice }):
		return fmt.Errorf("the approval %s has no choice %s", oneLine(a.ApprovalID, 100), oneLine(a.Choice, 100))
	}
	a.By = event.ByUser
	if a.ArgumentsDigest == "" && p.approval.ArgumentsDigest != "" && !denies(p.approval, a.Choice) {
		return errors.New("argumentsDigest: required to approve; copy it from the approval")
	}
	p.decide(a.Decision)
	return nil
}

// denies reports whether a choice denies the approval.
func denies(a event.Approval, choice string) bool {
	return slices.ContainsFunc(a.Choices, func(c event.Choice) bool {
		return c.ID == choice && (c.Kind == event.ChoiceDeny || c.Kind == event.ChoiceDenyStop)
	})
}

// approve implements [runnel.Approver].
func (s *answers) approve(ctx context.Context, a event.Approval) runnel.Decision {
	p := s.question(a)
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.asked, a.ID)
	}()
	select {
	case d := <-p.decided:
		return d
	case <-ctx.Done():
		return refusal(a)
	}
}

// question returns the pending entry of an approval, and adds it if it is new.
func (s *answers) question(a event.Approval) *pending {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.asked[a.ID]
	if p == nil {
		p = &pending{approval: a, decided: make(chan runnel.Decision, 1)}
		s.asked[a.ID] = p
	}
	if s.over {
		p.decide(refusal(a))
	}
	return p
}

// announcing is a sink that registers each approval before it prints the event,
// so that the program's answer cannot arrive too early.
type announcing struct {
	sink
	answers *answers
}

func (s announcing) event(ev event.Event) error {
	if b, ok := ev.Body.(event.ApprovalRequested); ok {
		s.answers.question(b.Approval)
	}
	return s.sink.event(ev)
}
