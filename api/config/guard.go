package config

import "github.com/tenon-numa/tenon/core/guard"

// Guard returns the guard that the arguments configure.
func (a Args) Guard() guard.Guard {
	out := guard.Guard{Estimated: a.CoarseNodes == Refuse, Silent: a.SilentNodes == Refuse,
		Inexact: a.InexactNodes == Refuse, KeepRestartable: a.KeepRestartable}
	switch a.UnknownNodes {
	case Refuse:
		out.Unknown = guard.Nobody
	case AllowWithoutDemand:
		out.Unknown = guard.WithoutDemand
	}
	return out
}
