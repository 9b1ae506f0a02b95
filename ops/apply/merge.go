package apply

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"
)

// Merge applies a drop-in file to a KubeletConfiguration as the kubelet does, by a JSON merge patch (RFC 7396): it
// merges mappings by key, replaces other values as a whole, and removes fields that are null. The result is YAML
// without comments.
func Merge(file, dropIn string) (string, error) {
	var base, patch map[string]any
	if err := yaml.Unmarshal([]byte(file), &base); err != nil {
		return "", fmt.Errorf("parse the kubelet's file: %w", err)
	}
	if err := yaml.Unmarshal([]byte(dropIn), &patch); err != nil {
		return "", fmt.Errorf("parse the drop-in file of the plan: %w", err)
	}
	text, err := yaml.Marshal(merge(base, patch))
	if err != nil {
		return "", fmt.Errorf("write the kubelet's file: %w", err)
	}
	return string(text), nil
}

// merge returns base with the values of patch. It does not change base.
func merge(base, patch map[string]any) map[string]any {
	out := maps.Clone(base)
	if out == nil {
		out = map[string]any{}
	}
	for name, value := range patch {
		inner, isMap := value.(map[string]any)
		was, _ := out[name].(map[string]any)
		switch {
		case value == nil:
			delete(out, name)
		case isMap:
			out[name] = merge(was, inner)
		default:
			out[name] = value
		}
	}
	return out
}

// checkConfigz returns an error that names the first value of the drop-in file that a kubelet's answer to /configz
// lacks; nil if it has all of them. An empty drop-in file has no values.
func checkConfigz(dropIn string, configz []byte) error {
	var want map[string]any
	if err := yaml.Unmarshal([]byte(dropIn), &want); err != nil {
		return fmt.Errorf("parse the drop-in file of the plan: %w", err)
	}
	var have struct {
		Config map[string]any `json:"kubeletconfig"`
	}
	if err := json.Unmarshal(configz, &have); err != nil {
		return fmt.Errorf("parse the answer: %w", err)
	}
	delete(want, "apiVersion")
	delete(want, "kind")
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if !covers(have.Config[name], want[name]) {
			return fmt.Errorf("it has %s: %s, want %s; a flag of the kubelet or a later file may override it", name,
				text(have.Config[name]), text(want[name]))
		}
	}
	return nil
}

func text(value any) string {
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(data)
}

// covers reports whether have contains everything in want. Lists must be equally long, and quantities equal in
// amount. If want is null, have must be null, empty or missing.
func covers(have, want any) bool {
	switch want := want.(type) {
	case nil:
		return slices.Contains([]string{"null", "[]", "{}"}, text(have))
	case map[string]any:
		have, _ := have.(map[string]any)
		for name, value := range want {
			if !covers(have[name], value) {
				return false
			}
		}
		return true
	case []any:
		have, _ := have.([]any)
		return slices.EqualFunc(have, want, covers)
	case string:
		have, _ := have.(string)
		if have == want {
			return true
		}
		a, errA := resource.ParseQuantity(have)
		b, errB := resource.ParseQuantity(want)
		return errA == nil && errB == nil && a.Cmp(b) == 0
	}
	return text(have) == text(want)
}
