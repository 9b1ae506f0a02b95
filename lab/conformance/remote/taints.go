package remote

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
)

// effects are the effects of taints.
var effects = []v1.TaintEffect{v1.TaintEffectNoSchedule, v1.TaintEffectPreferNoSchedule, v1.TaintEffectNoExecute}

// tolerations returns the tolerations that texts such as "KEY", "KEY=VALUE" and "KEY=VALUE:EFFECT" describe. Without a
// value all values are tolerated, and without an effect all effects.
func tolerations(texts []string) (out []v1.Toleration, err error) {
	for _, text := range texts {
		rest, effect, limited := strings.Cut(text, ":")
		key, value, equal := strings.Cut(rest, "=")
		t := v1.Toleration{Key: key, Value: value, Effect: v1.TaintEffect(effect), Operator: v1.TolerationOpExists}
		if equal {
			t.Operator = v1.TolerationOpEqual
		}
		wrong := slices.Concat(validation.IsQualifiedName(key), validation.IsValidLabelValue(value))
		if limited && !slices.Contains(effects, t.Effect) {
			wrong = append(wrong, "the effect has to be NoSchedule, PreferNoSchedule or NoExecute")
		}
		if len(wrong) > 0 {
			return nil, fmt.Errorf("taint %q is not KEY[=VALUE][:EFFECT]: %s", text, strings.Join(wrong, "; "))
		}
		out = append(out, t)
	}
	return out, nil
}
