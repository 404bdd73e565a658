package gateway

import (
	"encoding/json"
	"fmt"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/audit"
)

// auditBroker records in the audit log that a broker holds the API key of the
// session's agent, which has started with opt: once per session, and again if
// the API or where the key is stored has changed. It may wait for the disk.
func (o *opener) auditBroker(e *entry, p runnel.Provider, opt runnel.Options) {
	b, ok := p.(runnel.KeyBroker)
	if !ok || opt.Keys != runnel.KeysBroker {
		return
	}
	use, err := b.Brokerage(opt)
	if err != nil {
		return // the key has gone since the start
	}
	what := fmt.Sprintf("%s calls %s through a broker, which holds the API key (%s)", runnel.DisplayName(p), use.Host, use.From)
	rec, _ := e.snapshot()
	if keptOf(rec.Options).Brokered == what {
		return
	}
	o.cfg.Audit(audit.Record{Kind: audit.KeyBrokered, Session: rec.ID, What: what})
	e.change(func() { e.rec.Options = withBrokered(e.rec.Options, what) })
}

// withBrokered returns the stored options with another value of kept.Brokered.
func withBrokered(options json.RawMessage, what string) json.RawMessage {
	changes, err := json.Marshal(map[string]string{"brokered": what})
	if err != nil {
		return options // unreachable: text marshals
	}
	data, err := withOptions(options, changes)
	if err != nil {
		return options // the record's options are not valid JSON
	}
	return data
}
