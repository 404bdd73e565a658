package main

import (
	"fmt"

	"github.com/runnel-dev/runnel"
)

// checkKeys adds a finding for each agent whose API key the configuration gives
// to a broker, and one if there is no such agent.
func (a *app) checkKeys(d *diagnosis) {
	asked := false
	for _, p := range a.providers {
		if !a.brokers(p) {
			continue
		}
		asked = true
		f := finding{Area: "keys", Name: p.Name(), Status: fine}
		if err := checkBroker(p, &f); err != nil {
			f.Status, f.Detail = warning, messageOf(err)+"; runnel refuses to start this agent"
		}
		d.add(f)
	}
	if !asked {
		d.add(finding{Area: "keys", Name: "broker", Status: fine, Detail: "agents hold their API keys; with keys: broker in the options, runnel holds them"})
	}
}

// checkBroker fills in what the broker of an agent does. It fails if the agent
// cannot have a broker now.
func checkBroker(p runnel.Provider, f *finding) error {
	opt := runnel.Options{Keys: runnel.KeysBroker}
	if _, err := runnel.CheckOptions(p, opt, nil); err != nil {
		return err
	}
	b, ok := p.(runnel.KeyBroker)
	if !ok {
		return nil // unreachable: such a provider does not declare a broker
	}
	use, err := b.Brokerage(opt)
	if err != nil {
		return err
	}
	f.Detail = fmt.Sprintf("keys: broker: the agent calls %s with a placeholder, and runnel adds the API key (%s)", use.Host, use.From)
	return nil
}
