package stream

// Descriptions of the names on the wire, for readers of the OpenAPI document. A
// test requires one for each name.

// eventMeanings describes the canonical events, by type.
func eventMeanings() map[string]string {
	return map[string]string{
		"response_start":     "A turn starts. The item of its prompt precedes this event.",
		"item_start":         "An item starts. For a function call, name and callId are set; its arguments follow.",
		"item_delta":         "Text to append to the item; for a function call, to the JSON text of its arguments.",
		"item_done":          "An item is complete. finalItem is its complete content and replaces the text of the deltas.",
		"item_error":         "An item failed.",
		"item_cancelled":     "An item ended before it was complete.",
		"response_done":      "A turn ended without failing. This is the turn's last event.",
		"response_error":     "A turn failed. This is the turn's last event.",
		"approval_requested": "The agent waits for an answer to an approval.",
		"approval_resolved":  "An approval was answered or withdrawn. Each approval is resolved once. The choice is withdrawn if the agent withdrew the approval, or if its turn ended before an answer.",
		"session_updated":    "Properties of the session changed. An absent field did not change.",
		"usage_updated":      "The usage so far. usage is the sum over the turn; contextTokens belongs to the last message of the main thread.",
		"notice":             "Information that a client may show and may ignore.",
	}
}

// frameMeanings describes the frames of SSE streams, by name.
func frameMeanings() map[string]string {
	return map[string]string{
		"stream:open":         "The first frame of an event stream. It has the position after which the stream starts, and reports whether events between the client's position and the stream are missing.",
		"stream:end":          "The last frame of a stream that the server ends. To continue, resume after seq.",
		"session:init":        "The first frame of a turn's stream.",
		"chat:delta":          "Text to append to a message.",
		"chat:complete":       "A message is complete. text is its complete text and replaces the deltas.",
		"reasoning:delta":     "Text to append to the reasoning.",
		"reasoning:complete":  "The reasoning is complete. text is its complete text and replaces the deltas.",
		"tool:start":          "The agent calls a tool with these final arguments.",
		"tool:progress":       "Text to append to the output of a tool.",
		"tool:result":         "A tool call ended.",
		"plan:update":         "The agent's complete plan. It replaces the previous plan.",
		"permission:request":  "The agent waits for an answer to an approval.",
		"permission:resolved": "The approval of a permission:request was answered or withdrawn. Each approval is resolved once.",
		"notice":              "Information that a client may show and may ignore.",
		"turn:error":          "The turn failed, if fatal is true. Otherwise an item failed and the turn continues.",
		"session:complete":    "The turn ended without failing.",
		"process:exit":        "The last frame of a turn's stream. exitCode is 1 if the turn failed, else 0.",
	}
}

// clientMeanings describes the messages of a client of the WebSocket, by type.
func clientMeanings() map[string]string {
	return map[string]string{
		"session:hello":       "Chooses the connection's family of messages. Allowed only as the first message.",
		"session:subscribe":   "Subscribes to a session: the server sends its history after a position, and then every change as it happens.",
		"session:unsubscribe": "Ends the subscription to a session.",
		"session:items":       "Reads a page of a session's history backward, as GET /api/session/{id}/items does with before.",
		"sessions:subscribe":  "Subscribes to the status of every session that the credential can access: the server sends each status at once, and again whenever it changes.",
		"session:send":        "Sends a prompt, as POST /api/session/{id}/send does.",
		"session:cancel":      "Cancels the running turn, as POST /api/session/{id}/cancel does.",
		"session:kill":        "Ends the session, as POST /api/session/{id}/kill does.",
		"session:options":     "Changes settings of a live session, as POST /api/session/{id}/options does.",
		"session:decide":      "Answers an approval, as POST /api/session/{id}/approvals/{approvalId} does.",

		"session:queue":        "Reads the queue of a session, as GET /api/session/{id}/queue does.",
		"session:queue:hold":   "Holds or continues the queue of a session, as POST /api/session/{id}/queue does.",
		"session:queue:edit":   "Edits or moves a queued prompt, as POST /api/session/{id}/queue/{turnId} does.",
		"session:queue:remove": "Removes a queued prompt, as DELETE /api/session/{id}/queue/{turnId} does.",

		"conversations:subscribe": "Subscribes to changes of the list of stored conversations: the server sends conversations:changed after a conversation that the credential can access has changed, appeared or disappeared.",
	}
}

// serverMeanings describes the messages of the server on the WebSocket, by
// type.
func serverMeanings() map[string]string {
	return map[string]string{
		"session:hello:ack": "The response to session:hello, with the family of the connection.",
		"response":          "The response to the message with the same requestId. result is the body that the corresponding operation returns.",
		"error":             "The message with the same requestId failed. Without requestId, the connection or a subscription failed.",
		"session:history":   "A part of the history of a subscribed session. The last part has done: true.",
		"session:end":       "The server ends a subscription, for example because it shuts down. To continue, resume after seq.",
		"session:event":     "An event of the session's log, in the family events-v1.",
		"session:status":    "The status of a session that the client has subscribed to, or of any session after sessions:subscribe. The server sends it once, and whenever it changes.",
		"session:upsert":    "The current state of an item, in the family upsert-v1.",
		"session:append":    "Text to add to the end of an item that the client has, in the family upsert-v1. The server sends it only if session:hello requested appends.",
		"session:turn":      "A turn started or ended, in the family upsert-v1.",
		"session:approval":  "An approval was requested or answered, in the family upsert-v1.",
		"session:notice":    "Information that a client may show and may ignore, in the family upsert-v1.",
		"session:usage":     "The usage so far, in the family upsert-v1.",

		"conversations:changed": "The list of stored conversations has changed: less than a second ago, or less than a minute ago if the system does not report changes of the agent's files. Read the list with GET /api/conversations. Several changes may have one message.",
	}
}
