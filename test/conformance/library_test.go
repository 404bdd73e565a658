//go:build unix

package conformance

var _ = register(39, library)

// library is the table of the promises of the Go library about events and the
// end of a run. A program that embeds Runnel needs no server, so every row
// links a test of the library.
func library() table {
	tab := table{
		name: "library", title: "Go library: events and ends of a run", file: "library_test.go",
		intro: "What `runnel.Start` and `runnel.Open` promise about events, waiting and ends. Tests of the library show each row.",
		head:  []string{"function", "promise"},
	}
	for _, r := range [][3]string{
		{"`Run.Events`", "events come while the agent runs", "..TestEventsComeWhileTheAgentRuns"},
		{"`Run.Events`", "it may be called again, also after the end", "..TestEventsAfterTheEndAndAgain"},
		{"`Run.Events`", "many readers get the same events", "..TestManyReaders"},
		{"`Run.Wait`", "it returns once the terminal event is in the log and every started iteration has ended or was abandoned", "..TestWaitIsGatedByReaders"},
		{"`Run.Wait`", "it gives the same answer for ever", "..TestRunGivesTheSameAnswerForEver"},
		{"`Run.Wait`", "the exit code of the agent is data and by itself no error", "..TestExitCodeIsDataAndNoError"},
		{"`Run.Cancel`", "it ends the stream with `cancelled`, and a second call changes nothing", "..TestCancel"},
		{"`Run.Cancel`", "it wins over an error at the same time", "..TestRunCancelWinsOverAnError"},
		{"`Run.Cancel`", "it is enforced on an agent that does not stop", "..TestCancelIsEnforced"},
		{"`Run.Detach`", "it leaves the agent running", "..TestRunDetach"},
		{"`Session.Close`", "it ends a running turn as cancelled", "..TestCloseEndsARunningTurnAsCancelled"},
		{"`runnel.Start`", "the end of its context ends the agent if that was asked for, and not otherwise", "..TestRunEndsWithItsContextOnlyIfAsked"},
		{"`runnel.Start`", "a timeout covers the run from the start of the process to its end", "..TestRunTimeout"},
		{"`runnel.Start`", "a capability that the provider lacks is refused before anything starts", "..TestCapabilityIsCheckedFirst"},
		{"`runnel.Start`", "an empty prompt is refused", "..TestBlankPromptIsRefused"},
		{"`runnel.Start`", "defaults hold where the request says nothing", "..TestDefaultsHoldWhereARequestSaysNothing"},
		{"`Session.Send`", "one turn runs at a time", "..TestOneTurnAtATime"},
		{"`Session.Decide`", "the first decision wins", "..TestApprovalFirstDecisionWins"},
	} {
		tab.rows = append(tab.rows, row{r[:2], nil, r[2]})
	}
	return tab
}
