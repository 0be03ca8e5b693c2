//go:build race

package token

// raceEnabled tells that the race detector is on, which allocates.
const raceEnabled = true
