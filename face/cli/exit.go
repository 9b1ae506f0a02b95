package cli

import "errors"

// This file has the exit codes of all commands; 0, 1 and 2 are as for grep and diff. docs/reference/kubectl-tenon.md
// has them in one table.

// The exit codes. They mean the same for every command.
const (
	// ExitYes: the answer is yes, the command has shown what it was asked for, or it has done its work.
	ExitYes = 0
	// ExitNo: the answer is no. Pods have no place or can never run, something is wrong, or the user did not agree.
	ExitNo = 1
	// ExitError: there is no answer. The command line is wrong, or an error happened; the reason is on stderr.
	ExitError = 2
	// ExitPart: nothing speaks against a yes, but something could not be read or judged. The output names it.
	ExitPart = 3
)

// answered is the error of a command that has written its whole answer. It stands for an exit code other than
// ExitYes, and nothing more is written about it.
type answered struct {
	code int
	text string
}

func (a *answered) Error() string { return a.text }

var (
	errNoPlace     = &answered{ExitNo, "some pods have no place"}
	errNotAdmitted = &answered{ExitNo, "some pods can run on no node"}
	errFindings    = &answered{ExitNo, "something is wrong"}
	errDeclined    = &answered{ExitNo, "the user did not agree"}
	errNotJudged   = &answered{ExitPart, "some pods could not be judged"}
	errUnread      = &answered{ExitPart, "not everything was examined"}
	errIncomplete  = &answered{ExitPart, "the bundle is incomplete"}
)

// exitCode returns the exit code for the error of a command, and whether the command has already written what there
// is to say.
func exitCode(err error) (code int, written bool) {
	var a *answered
	switch {
	case err == nil:
		return ExitYes, true
	case errors.As(err, &a):
		return a.code, true
	}
	return ExitError, false
}
