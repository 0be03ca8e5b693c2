package pool

// held is the record that a decision holds.
type held struct{}

func (d *Decision) release() {}
