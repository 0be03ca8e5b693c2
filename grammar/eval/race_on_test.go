//go:build race

package eval

// largeSize is the size of the texts of TestLargeText.
const largeSize = 1 << 15
