package runnel

import "github.com/runnel-dev/runnel/event"

// credentialCategories are the errors about an agent's own credential, and what
// is wrong with it.
var credentialCategories = map[Code]string{
	MissingAPIKey:    "API_KEY_MISSING",
	InvalidAPIKey:    "API_KEY_REFUSED",
	AgentNotLoggedIn: "LOGIN_MISSING",
}

// credentialDetails returns err with the provider whose agent needs the credential
// and the category of the problem, if err is about that and has no details.
func credentialDetails(provider string, err *Error) *Error {
	category, ok := credentialCategories[err.Code]
	if !ok || err.Details != nil {
		return err
	}
	out := *err
	out.Details = map[string]string{"provider": provider, "category": category}
	return &out
}

// withCredentialDetails is credentialDetails for the end of a turn.
func withCredentialDetails(provider string, b event.ResponseError) event.ResponseError {
	if len(b.Error.Details) == 0 {
		b.Error.Details = credentialDetails(provider, &Error{Code: Code(b.Error.Code)}).Fault().Details
	}
	return b
}
