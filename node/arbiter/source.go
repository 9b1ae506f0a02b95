package arbiter

import (
	"context"
	"errors"
	"fmt"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/node/kubelet"
)

// Source reads the rules of a node whose agent may be the arbiter. While the kubelet's managers are off, these are the
// rules in the agent's own configuration. Otherwise they are the kubelet's rules, and the kubelet is the arbiter.
type Source struct {
	// Kubelet reads the configuration of the kubelet, and Pins the agent's own rules, which have the same form.
	Kubelet, Pins kubelet.Source
}

// Configuration implements kubelet.Source. If one of the kubelet's managers is static, the kubelet is the arbiter:
// the result has its rules, and Refusal says why the agent cannot pin. Rules of the agent that cannot be used are an
// error.
func (s Source) Configuration(ctx context.Context) (kubelet.Configuration, error) {
	kubeletConfig, err := s.Kubelet.Configuration(ctx)
	if err != nil {
		return kubeletConfig, err
	}
	pins, err := s.Pins.Configuration(ctx)
	if err == nil && !pins.Rules.CPU.Static {
		err = errors.New("cpuManagerPolicy is none, so no container would get CPUs of its own; set it to static")
	}
	if err != nil {
		return kubeletConfig, fmt.Errorf("pin configuration: %w", err)
	}
	if kubeletConfig.Refusal = checkManagers(kubeletConfig.Rules); kubeletConfig.Refusal != nil {
		return kubeletConfig, nil
	}
	pins.Rules.Arbiter = place.ByAgent
	pins.Doubt = kubeletConfig.Doubt
	return pins, nil
}

// checkManagers returns the reason why the agent cannot pin beside a kubelet with these rules, or nil. A static CPU
// manager writes the CPUs of all containers every few seconds. A static memory manager writes their NUMA nodes when
// they start.
func checkManagers(r place.Rules) error {
	switch {
	case r.CPU.Static:
		return errors.New("the kubelet's cpuManagerPolicy is static; " +
			"set it to none, or run the agent without --pin-config")
	case r.Memory.Static:
		return errors.New("the kubelet's memoryManagerPolicy is Static; " +
			"set it to None, or run the agent without --pin-config")
	}
	return nil
}
