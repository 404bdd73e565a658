package httpapi

import (
	"errors"
	"net/http"
	"slices"
	"strconv"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/audit"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi/access"
	"github.com/runnel-dev/runnel/httpapi/command"
	"github.com/runnel-dev/runnel/httpapi/reply"
	"github.com/runnel-dev/runnel/rules"
	"github.com/runnel-dev/runnel/store"
)

// The bodies of the routes about rules.
type (
	rulesAnswer struct {
		Rules []command.Rule `json:"rules" doc:"The rules, oldest first."`
	}
	ruleAnswer struct {
		Rule command.Rule `json:"rule"`
		sandboxAnswer
	}
	sandboxAnswer struct {
		Sandboxes *gateway.SandboxChange `json:"sandboxes,omitempty" doc:"For which open sessions the change of a rule of kind sandbox_read or sandbox_write has taken effect. Absent for other kinds."`
	}
)

// rulebook are the handlers of the routes about stored rules.
type rulebook struct{ approvals gateway.Approvals }

func (b *rulebook) routes() []route {
	return []route{
		handle(route{path: "/api/rules", scope: auth.Read, bound: true, name: "listRules",
			summary: "List the stored rules", about: "The rules decide approvals without asking a person."}, b.list),
		handleJSON(route{path: "/api/rules", scope: auth.Approve, bound: true, name: "createRule", status: http.StatusCreated,
			summary: "Store a rule", about: "The rule decides approvals from now on. If an equivalent rule exists, the server returns that rule. A rule of kind sandbox_read or sandbox_write lets sandboxes reach a path outside of the project. It takes effect when an agent starts: the server stops the agents of idle sessions, and the next prompt starts and resumes them.",
			fails: sessionFails(runnel.PersonaNotFound)}, b.create),
		handleJSON(route{path: "/api/rules/explain", scope: auth.Read, bound: true, name: "explainRules",
			summary: "Explain which rule would decide a tool call", about: "Reports for every rule whether it matches the call, and why. Nothing runs, nobody is asked and no use is counted.",
			fails: []runnel.Code{runnel.UnsupportedCLIType}}, b.explain),
		handle(route{method: http.MethodDelete, path: "/api/rules/{id}", scope: auth.Approve, bound: true, name: "deleteRule",
			summary: "Delete a rule"}, b.remove),
	}
}

func (b *rulebook) list(r *http.Request) (rulesAnswer, error) {
	out := rulesAnswer{Rules: []command.Rule{}}
	for _, rule := range b.approvals.Rules() {
		if gateway.OwnRule(r.Context(), rule) {
			out.Rules = append(out.Rules, command.RuleOf(rule))
		}
	}
	return out, nil
}

func (b *rulebook) explain(r *http.Request, in command.ExplainRequest) (command.ExplainAnswer, error) {
	if in.CLIType != "" {
		var err error
		if in.CLIType, err = b.approvals.CLIType(in.CLIType); err != nil {
			return command.ExplainAnswer{}, err
		}
	}
	return command.Explain(r.Context(), b.approvals.Rules(), in)
}

func (b *rulebook) create(r *http.Request, in command.RuleRequest) (ruleAnswer, error) {
	want := command.RuleBy(access.Caller(r.Context()), in)
	if err := access.Record(r.Context(), audit.Record{Kind: audit.RuleAdded, What: rules.Text(want)}); err != nil {
		return ruleAnswer{}, err
	}
	if want.Kind.IsSandbox() {
		rule, change, err := b.approvals.AllowInSandbox(r.Context(), want)
		return ruleAnswer{command.RuleOf(rule), sandboxAnswer{change}}, err
	}
	rule, err := b.approvals.AddRule(r.Context(), want)
	return ruleAnswer{Rule: command.RuleOf(rule)}, err
}

func (b *rulebook) remove(r *http.Request) (sandboxAnswer, error) {
	none := reply.NewError(http.StatusNotFound, "there is no such rule; GET /api/rules lists the rules")
	id, err := strconv.ParseInt(r.PathValue("id"), 10, 64)
	if err != nil || !slices.ContainsFunc(b.approvals.Rules(), func(rule store.Rule) bool {
		return rule.ID == id && gateway.OwnRule(r.Context(), rule)
	}) {
		return sandboxAnswer{}, none
	}
	if err := access.Record(r.Context(), audit.Record{Kind: audit.RuleRemoved, Rule: id}); err != nil {
		return sandboxAnswer{}, err
	}
	change, err := b.approvals.RemoveRule(r.Context(), id)
	if errors.Is(err, store.ErrNotFound) { // removed meanwhile
		return sandboxAnswer{}, none
	}
	return sandboxAnswer{change}, err
}
