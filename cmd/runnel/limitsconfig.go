package main

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/gateway/detect"
	"github.com/runnel-dev/runnel/internal/proc"
	"github.com/runnel-dev/runnel/internal/termtext"
)

// limitsKey is the section of the configuration file with the limits of every
// agent. The section of an agent may contain a section limits, too.
const limitsKey = "limits"

// limitsHelp is the part of help texts about the section limits.
const limitsHelp = `It can also limit what every agent and its processes use, for all agents as
here, or below one agent. This needs Linux and a cgroup; 'runnel doctor' says
whether this machine can do it:

  limits:
    memoryMiB: 4096
    processes: 1000              # processes and threads
    cpus: 2`

// agentLimits are the limits of agents. The key "" stands for agents without
// limits of their own.
type agentLimits map[string]runnel.Limits

// Bounds of the limits.
const (
	maxMemoryMiB = 1 << 30
	maxProcesses = 4 << 20 // the kernel's bound of process ids
	minCPUs      = 0.01
	maxCPUs      = 10_000
)

// limitsOf parses the limits in the section limits and in the agents section of
// the configuration file. agentsOf has checked the types of agents.
func limitsOf(all, agents any) (agentLimits, error) {
	base, err := parseLimits(limitsKey, all, runnel.Limits{})
	if err != nil {
		return nil, err
	}
	out := agentLimits{"": base}
	entries, _ := agents.(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		fields, _ := entries[name].(map[string]any)
		raw, ok := fields[limitsKey]
		if !ok {
			continue
		}
		if out[name], err = parseLimits(agentsKey+"."+name+"."+limitsKey, raw, base); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// parseLimits parses one section. It returns base with the limits that the
// section sets.
func parseLimits(key string, raw any, base runnel.Limits) (runnel.Limits, error) {
	if raw == nil {
		return base, nil
	}
	fields, ok := raw.(map[string]any)
	if !ok {
		return base, fmt.Errorf("%s: must be limits, such as {memoryMiB: 4096}", key)
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		at, value := key+"."+name, fields[name]
		var err error
		switch name {
		case "memoryMiB":
			base.MemoryMiB, err = wantCount(at, value, maxMemoryMiB)
		case "processes":
			base.Processes, err = wantCount(at, value, maxProcesses)
		case "cpus":
			base.CPUs, err = wantCPUs(at, value)
		default:
			err = fmt.Errorf("%s: unknown; want memoryMiB, processes or cpus", at)
		}
		if err != nil {
			return base, err
		}
	}
	return base, nil
}

func wantCount(key string, v any, most int) (int, error) {
	if n, ok := v.(int); ok && n >= 0 && n <= most {
		return n, nil
	}
	return 0, fmt.Errorf("%s: want a whole number from 1 to %d, or 0 for no limit", key, most)
}

func wantCPUs(key string, v any) (float64, error) {
	n, isFloat := v.(float64)
	if i, ok := v.(int); ok {
		n, isFloat = float64(i), true
	}
	if isFloat && !math.IsNaN(n) && (n == 0 || n >= minCPUs && n <= maxCPUs) {
		return n, nil
	}
	return 0, fmt.Errorf("%s: want a number of CPUs from %v to %v, such as 1.5, or 0 for no limit", key, minCPUs, maxCPUs)
}

// useLimits makes the providers limit their agents. It must be called after
// useAgents. path is that of the configuration file.
func (a *app) useLimits(path string, limits agentLimits) error {
	a.limits = runnel.Limits{}
	own := make(map[string]runnel.Limits)
	index := detect.NewIndex(a.providers)
	for name, l := range limits {
		if name == "" {
			continue
		}
		p := index.Find(name)
		if p == nil {
			return badFile(path, fmt.Errorf("agents.%s: no known agent has this name", name))
		}
		if _, ok := p.(runnel.Limiter); !ok {
			return badFile(path, fmt.Errorf("agents.%s.limits: this agent runs no program", name))
		}
		own[p.Name()] = l
	}
	a.providers = slices.Clone(a.providers)
	for i, p := range a.providers {
		limiter, ok := p.(runnel.Limiter)
		if !ok {
			continue
		}
		l, ok := own[p.Name()]
		if !ok {
			l = limits[""]
		}
		if l != (runnel.Limits{}) {
			a.providers[i] = limiter.WithLimits(l)
		}
		a.limits = a.limits.With(l)
	}
	return nil
}

// enableLimits prepares this process to enforce the limits of all agents. It
// fails if this machine cannot enforce them.
func (a *app) enableLimits() error {
	if err := proc.EnableLimits(proc.Limits(a.limits)); err != nil {
		return usage("the configuration sets limits: %s", termtext.Clean(err.Error()))
	}
	return nil
}

// checkLimits adds the finding about the limits of agents.
func (a *app) checkLimits(d *diagnosis) {
	limits := a.limits
	f := finding{Area: "kernel", Name: limitsKey, Status: fine, Detail: "the limits of the configuration can be enforced here: " + shownLimits(limits)}
	asked := limits != runnel.Limits{}
	if !asked {
		limits = runnel.Limits{MemoryMiB: 1, Processes: 1, CPUs: 1}
		f.Detail = "none are configured; they could be enforced here"
	}
	err := proc.CheckLimits(proc.Limits(limits))
	if err == nil {
		d.add(f)
		return
	}
	f.Detail = err.Error()
	if why, fix, ok := strings.Cut(err.Error(), "; "); ok {
		f.Detail, f.Fix = why, fix
	}
	if asked {
		f.Status = problem
	} else {
		f.Detail, f.Fix = "none are configured; they could not be enforced here: "+f.Detail, ""
	}
	d.add(f)
}

// shownLimits lists the limits in l.
func shownLimits(l runnel.Limits) string {
	var out []string
	if l.MemoryMiB > 0 {
		out = append(out, "memoryMiB")
	}
	if l.Processes > 0 {
		out = append(out, "processes")
	}
	if l.CPUs > 0 {
		out = append(out, "cpus")
	}
	return strings.Join(out, ", ")
}
