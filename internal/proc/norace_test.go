//go:build !race

package proc

import "time"

const raceSlack time.Duration = 0
