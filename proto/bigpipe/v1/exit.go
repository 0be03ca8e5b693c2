package bigpipev1

// Exit statuses: those of ExecuteResult, which are the command line's too.
const (
	// ExitDone: done, and in effect.
	ExitDone = 0
	// ExitRefused: refused by the running state; nothing was changed.
	ExitRefused = 1
	// ExitDiffers is that of a dry run of a load which would change something.
	ExitDiffers = 1
	// ExitFaulty: faulty text, or a program was called in a wrong way; nothing was changed.
	ExitFaulty = 2
	// ExitNotInEffect: stored, but not in effect on at least one dataplane.
	ExitNotInEffect = 3
	// ExitUnreachable: mgmtd is not reachable. The command line alone ends so.
	ExitUnreachable = 4
)
