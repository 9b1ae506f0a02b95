package plugin

import (
	"fmt"
	"maps"

	"gopkg.in/yaml.v2" // Volcano reads its configuration with this package
	"k8s.io/apimachinery/pkg/runtime"
	"volcano.sh/volcano/pkg/scheduler/framework"

	"github.com/tenon-numa/tenon/api/config"
)

const (
	weightArgument = "weight"
	// defaultWeight is the weight that Volcano's documentation gives to numa-aware.
	defaultWeight = 10
	maxWeight     = 10_000
)

// arguments are the plugin's arguments in the scheduler's configuration.
type arguments struct {
	config.Args
	weight int
}

// Validate returns an error if the arguments of the plugin are invalid, or nil.
func Validate(given framework.Arguments) error {
	_, err := parse(given)
	return err
}

// parse reads the plugin's arguments: weight, and the arguments of TenonArgs that have a meaning under Volcano. It
// returns an error for all others.
func parse(given framework.Arguments) (arguments, error) {
	out, rest := arguments{weight: defaultWeight}, maps.Clone(given)
	if w, ok := rest[weightArgument]; ok {
		n, ok := w.(int)
		if !ok || n < 0 || n > maxWeight {
			return arguments{}, fmt.Errorf("argument %s: %v is not a whole number in 0..%d", weightArgument, w, maxWeight)
		}
		out.weight = n
	}
	delete(rest, weightArgument)
	var raw runtime.Object
	if len(rest) > 0 {
		text, err := yaml.Marshal(rest)
		if err != nil {
			return arguments{}, fmt.Errorf("read arguments: %w", err)
		}
		raw = &runtime.Unknown{Raw: text}
	}
	var err error
	if out.Args, err = config.Decode(config.Tenon, raw); err != nil {
		return arguments{}, err
	}
	for _, name := range []string{"layoutSelector", "fittingShapes", "fittingPool", "podLogs"} {
		if _, ok := rest[name]; ok {
			return arguments{}, fmt.Errorf("argument %s is for tenon-scheduler: remove it", name)
		}
	}
	return out, nil
}
