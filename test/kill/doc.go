// Package kill kills servers and supervisors during turns of real agents, at
// the worst moments. It then checks the log, what clients received, and which
// processes remain.
package kill
