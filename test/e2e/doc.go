// Package e2e tests the built program with real agents. A scripted model on the
// loopback interface answers the agents. The same scenarios run over HTTP and
// over the WebSocket.
package e2e
