//go:build !race

package forward

// raceEnabled tells that the race detector is on, which allocates.
const raceEnabled = false
