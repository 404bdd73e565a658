// The measurements, apart from the program so that ./... of its module leaves
// them out. Run them with: go -C bench run . (see README.md)
module github.com/runnel-dev/runnel/bench

go 1.26.0

require (
	github.com/coder/websocket v1.8.15
	github.com/runnel-dev/runnel v0.0.0
)

require golang.org/x/sys v0.49.0 // indirect

replace github.com/runnel-dev/runnel => ../
