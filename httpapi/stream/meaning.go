package stream

// Descriptions of the names on the wire, for readers of the OpenAPI document. A
// test requires one for each name.

// eventMeanings describes the canonical events, by type.
func eventMeanings() map[string]string {
	return map[string]string{
		"response_start":     "A turn begins. The item of its prompt comes before.",
		"item_start":         "An item begins. A function call has its name and callId already.",
		"item_delta":         "Text is appended to an item; for a function call to the JSON text of its arguments.",
		"item_done":          "An item ends. finalItem is the whole of it and overrides the deltas.",
		"item_error":         "An item ends because it failed.",
		"item_cancelled":     "An item ends unfinished.",
		"response_done":      "A turn ends that did not fail. It is the turn's last event.",
		"response_error":     "A turn ends because it failed. It is the turn's last event.",
		"approval_requested": "The agent asks, and waits for one of the choices.",
		"approval_resolved":  "The one answer to an approval, whoever gave it. The choice is withdrawn where nobody may answer any more.",
		"session_updated":    "Facts about the session changed. An absent field did not.",
		"usage_updated":      "What was used so far: usage is the turn's sum, contextTokens that of the last message of the main thread.",
		"notice":             "Something that a reader may want to know and may ignore.",
	}
}

// frameMeanings describes the frames of SSE streams, by name.
func frameMeanings() map[string]string {
	return map[string]string{
		"stream:open":         "The first frame of a session's events: whether the client gets all that it lacks, and the position from which it reads.",
		"stream:end":          "The last frame of a stream that the server ends. A client resumes after seq.",
		"session:init":        "The first frame of a turn.",
		"chat:delta":          "Text is appended to a message.",
		"chat:complete":       "A message ends. The text is the whole of it, and counts.",
		"reasoning:delta":     "Text is appended to reasoning.",
		"reasoning:complete":  "Reasoning ends. The text is the whole of it, and counts.",
		"tool:start":          "A tool is called, with its final arguments.",
		"tool:progress":       "Output is appended to that of a tool.",
		"tool:result":         "The call of a tool ends.",
		"plan:update":         "The agent's plan, as a whole.",
		"permission:request":  "The agent asks, and waits for one of the choices.",
		"permission:resolved": "The one answer to a permission:request.",
		"notice":              "Something that a reader may want to know and may ignore.",
		"turn:error":          "Something failed: the turn, if it is fatal, and otherwise an item.",
		"session:complete":    "The turn ends and did not fail.",
		"process:exit":        "The last frame of a turn. The exitCode is 0 unless the turn failed.",
	}
}

// clientMeanings describes the messages of a client of the WebSocket, by type.
func clientMeanings() map[string]string {
	return map[string]string{
		"session:hello":       "Chooses the family of the connection. It may only be the first message.",
		"session:subscribe":   "Asks for a session's history after a position, and then for what happens.",
		"session:unsubscribe": "Ends the subscription to a session.",
		"sessions:subscribe":  "Asks for the status of every session that the credential may see, now and whenever it changes.",
		"session:send":        "Sends a prompt, as POST /api/session/{id}/send does.",
		"session:cancel":      "Ends the running turn, as POST /api/session/{id}/cancel does.",
		"session:kill":        "Ends the session, as POST /api/session/{id}/kill does.",
		"session:options":     "Changes settings of a live session, as POST /api/session/{id}/options does.",
		"session:decide":      "Answers an approval, as POST /api/session/{id}/approvals/{approvalId} does.",
	}
}

// serverMeanings describes the messages of the server on the WebSocket, by
// type.
func serverMeanings() map[string]string {
	return map[string]string{
		"session:hello:ack": "The answer to session:hello: the family of the connection.",
		"response":          "The answer to the message with the same requestId: result is what the operation answers with.",
		"error":             "The message with the same requestId failed; without one, the connection or a subscription did.",
		"session:history":   "A stretch of the history of a subscribed session. The last one is done.",
		"session:end":       "The server ends a subscription because it shuts down. A client resumes after seq.",
		"session:event":     "An event of the session's log, in the family events-v1.",
		"session:status":    "The status of a session that the client subscribed to, or of any after sessions:subscribe: once, and whenever it changes.",
		"session:upsert":    "A whole item as it stands now, in the family upsert-v1.",
		"session:append":    "Text to add to an item that the client has, in the family upsert-v1, if its session:hello asked for appends.",
		"session:turn":      "A turn begins or ends, in the family upsert-v1.",
		"session:approval":  "The agent asks, or was answered, in the family upsert-v1.",
		"session:notice":    "Something that a reader may want to know and may ignore, in the family upsert-v1.",
		"session:usage":     "What was used so far, in the family upsert-v1.",
	}
}

// fieldMeanings describes the fields with the same meaning in all types.
func fieldMeanings() map[string]string {
	return map[string]string{
		"sessionId":      "id of the session",
		"turnId":         "id of the turn",
		"seq":            "position in the session's log: a client resumes after it",
		"itemId":         "id of the item, the same in all that is about it",
		"eventId":        "unique id of the event",
		"timestamp":      "when the agent produced the event",
		"callId":         "joins the call of a tool and its output",
		"parentCallId":   "the call whose subagent did this; absent on the main thread",
		"requestId":      "chosen by the client; the answer has the same",
		"startedAt":      "when the item's first event was produced",
		"emittedAt":      "when the server made this",
		"warnings":       "about what was ignored or left out",
		"cliType":        "kind of agent",
		"projectId":      "stable id of the project's directory",
		"agentSessionId": "the agent's own id of the conversation",
		"arguments":      "of the tool, any JSON",
		"toolArguments":  "any JSON; absent until the arguments are final",
		"hunks":          "what changed; empty where only the whole text is known",
		"oldText":        "absent where the agent did not report it; an emptied file has an empty text",
		"newText":        "absent where the agent did not report it; an emptied file has an empty text",
		"choices":        "what can be chosen",
		"costUsd":        "of the turn, in US dollars",
		"exitCode":       "of a process",
	}
}
