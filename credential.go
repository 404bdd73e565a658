package runnel

import "github.com/runnel-dev/runnel/event"

// credentialCategories maps the codes of errors about an agent's credential to
// the category of the problem.
var credentialCategories = map[Code]string{
	MissingAPIKey:    "API_KEY_MISSING",
	InvalidAPIKey:    "API_KEY_REFUSED",
	AgentNotLoggedIn: "LOGIN_MISSING",
}

// credentialDetails returns err with the provider and the category of the
// problem in its details, if err is about an agent's credential and has no
// details yet.
func credentialDetails(provider string, err *Error) *Error {
	category, ok := credentialCategories[err.Code]
	if !ok || err.Details != nil {
		return err
	}
	out := *err
	out.Details = map[string]string{"provider": provider, "category": category}
	return &out
}

// withCredentialDetails is credentialDetails for the terminal event of a turn.
func withCredentialDetails(provider string, b event.ResponseError) event.ResponseError {
	if len(b.Error.Details) == 0 {
		b.Error.Details = credentialDetails(provider, &Error{Code: Code(b.Error.Code)}).Fault().Details
	}
	return b
}
