package pin

import (
	"errors"
	"fmt"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// Check returns why an agent cannot be the arbiter of a machine under these rules, or nil.
func Check(m *topo.Machine, r place.Rules) error {
	if err := r.Validate(m); err != nil {
		return err
	}
	switch {
	case r.Arbiter != place.ByAgent:
		return fmt.Errorf("the rules name the %s as the arbiter, not the agent", r.Arbiter)
	case !r.CPU.Static:
		return errors.New("no CPU is ever exclusive by these rules, so there is nothing to pin: want the CPU policy static")
	case r.CPU.Reserved.Empty():
		return errors.New("no CPUs are reserved: containers that share CPUs need at least one that is never exclusive")
	}
	return nil
}
