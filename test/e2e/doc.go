// Package e2e drives real agents through the whole of runnel: the built binary
// serves, a scripted model on loopback answers, and the same scenarios run over
// HTTP and over the WebSocket.
package e2e
