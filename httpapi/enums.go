package httpapi

import (
	"reflect"

	"github.com/runnel-dev/runnel"
	"github.com/runnel-dev/runnel/audit"
	"github.com/runnel-dev/runnel/auth"
	"github.com/runnel-dev/runnel/changes"
	"github.com/runnel-dev/runnel/event"
	"github.com/runnel-dev/runnel/files"
	"github.com/runnel-dev/runnel/gateway"
	"github.com/runnel-dev/runnel/httpapi/reply"
	"github.com/runnel-dev/runnel/internal/filediff"
	"github.com/runnel-dev/runnel/profile"
	"github.com/runnel-dev/runnel/push"
	"github.com/runnel-dev/runnel/rules"
	"github.com/runnel-dev/runnel/store"
	"github.com/runnel-dev/runnel/upsert"
)

// enums returns the values of every enumerated type on the wire. A test
// compares the lists with the constants of the types.
func enums() map[reflect.Type][]any {
	out := make(map[reflect.Type][]any)
	enum(out, event.TypeMessage, event.TypeReasoning, event.TypeFunctionCall, event.TypeFunctionCallOutput, event.TypePlan)
	enum(out, event.StatusCompleted, event.StatusCancelled, event.StatusError)
	enum(out, event.ReasonUserCancel, event.ReasonTimeout, event.ReasonProcessDeath)
	enum(out, event.LevelInfo, event.LevelWarning, event.LevelError)
	enum(out, event.StateOpen, event.StateLoading, event.StateDead)
	enum(out, event.ActivityIdle, event.ActivityWorking, event.ActivityWaiting)
	enum(out, event.ApprovalTool, event.ApprovalPlan, event.ApprovalQuestion, event.ApprovalForm)
	enum(out, event.ChoiceAllowOnce, event.ChoiceAllowSession, event.ChoiceAllowAlways, event.ChoiceDeny, event.ChoiceDenyStop)
	enum(out, event.TitleByUser, event.TitleByAgent)
	enum(out, event.ByUser, event.ByPolicy, event.ByTimeout, event.ByAgent)
	enum(out, event.OriginUser, event.OriginAgent, event.OriginSystem)
	enum(out, event.KindRead, event.KindEdit, event.KindDelete, event.KindMove, event.KindSearch, event.KindExecute,
		event.KindThink, event.KindFetch, event.KindSwitchMode, event.KindDelegate, event.KindOther)
	enum(out, event.ChangeCreate, event.ChangeUpdate, event.ChangeDelete, event.ChangeMove)
	enum(out, upsert.KindMessage, upsert.KindThinking, upsert.KindToolCall, upsert.KindPlan)
	enum(out, upsert.StatusCreate, upsert.StatusUpdate, upsert.StatusComplete, upsert.StatusError)
	enum(out, upsert.TurnStarted, upsert.TurnComplete, upsert.TurnError)
	enum(out, upsert.ApprovalPending, upsert.ApprovalResolved)
	enum(out, runnel.ModeDefault, runnel.ModeAcceptEdits, runnel.ModePlan, runnel.ModeDontAsk, runnel.ModeBypass)
	enum(out, runnel.ThinkingSummarized, runnel.ThinkingOmitted)
	enum(out, runnel.KeysAgent, runnel.KeysBroker)
	enum(out, runnel.SandboxOff, runnel.SandboxFiles, runnel.SandboxProject)
	enum(out, runnel.EgressDeny, runnel.EgressAsk)
	enum(out, runnel.AuthAgentLogin, runnel.AuthAPIKey)
	enum(out, runnel.MCPOverHTTP, runnel.MCPOverSSE)
	enum(out, profile.FromTurn, profile.FromSession, profile.FromProfile, profile.FromProject, profile.FromEnvironment,
		profile.FromGlobal, profile.FromAgent)
	enum(out, auth.Read, auth.Send, auth.Approve, auth.Admin)
	enum(out, audit.Actions()...)
	enum(out, store.EffectAllow, store.EffectDeny)
	enum(out, store.RuleExecute, store.RuleEdit, store.RuleRead, store.RuleFetch, store.RuleConnect, store.RuleTool, store.RuleSandboxRead, store.RuleSandboxWrite)
	enum(out, gateway.DeniedRead, gateway.DeniedWrite)
	enum(out, rules.OutcomeAllow, rules.OutcomeDeny, rules.OutcomeAsk)
	enum(out, rules.MatchYes, rules.MatchNo, rules.MatchUnclear)
	enum(out, rules.GateForbidden, rules.GateDelegation, rules.GateDenyRules, rules.GateAutoApprove, rules.GateAllowRules, rules.GatePerson)
	enum(out, changes.StateReady, changes.StateNone, changes.StateRefused, changes.StateNoGit, changes.StateTooLarge)
	enum(out, changes.WorktreeReady, changes.WorktreeMissing, changes.WorktreeRefused)
	enum(out, filediff.NewlineAdded, filediff.NewlineRemoved)
	enum(out, filediff.PlaceAgent, filediff.PlaceFound, filediff.PlaceWhole, filediff.PlaceSeveral, filediff.PlaceMissing, filediff.PlaceUnknown)
	enum(out, gateway.CaptureSize, gateway.CaptureDisk, gateway.CaptureFailed)
	enum(out, push.Kinds()...)
	enum(out, files.KindFile, files.KindFolder, files.KindLink, files.KindOther)
	enum(out, files.ContentText, files.ContentImage, files.ContentBinary)
	enum(out, reply.Codes()...)
	return out
}

func enum[T ~string](out map[reflect.Type][]any, values ...T) {
	for _, v := range values {
		t := reflect.TypeFor[T]()
		out[t] = append(out[t], v)
	}
}
