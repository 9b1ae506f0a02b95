package pod

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/core/printable"
)

// prefix begins the names of Tenon's annotations.
const prefix = "tenon.sh/"

// Annotations returns the names of all annotations of pods that a program of Tenon reads, in ascending order.
func Annotations() []string {
	return []string{AffinityGroupAnnotation, AlignAnnotation, IgnoreAnnotation, "tenon.sh/file", "tenon.sh/kubelet-change",
		"tenon.sh/log-level", MoveCostAnnotation, "tenon.sh/numa-affinity", ApartAnnotation, PolicyAnnotation,
		ScopeAnnotation, TogetherAnnotation, "tenon.sh/order", "tenon.sh/placement", "tenon.sh/scoring-strategy"}
}

// Bounds on the texts about one pod.
const (
	maxMisspelt = 8
	maxName     = 60
)

// Misspelt returns texts about names in a pod that are probably wrong: annotations and labels with Tenon's prefix
// that no program reads, and a schedulerName that resembles one of the given schedulers but equals none. It returns
// at most maxMisspelt texts.
func Misspelt(p *v1.Pod, schedulers []string) (out []string) {
	may := func(text, name string, known []string) string {
		if near := printable.Nearest(name, known); near != "" {
			return text + "; " + near + " may be meant"
		}
		return text
	}
	say := func(text string) {
		if len(out) < maxMisspelt {
			out = append(out, text)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Annotations)) {
		if strings.HasPrefix(name, prefix) && !slices.Contains(Annotations(), name) {
			say(may("nothing reads the annotation "+clip(name), name, Annotations()))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Labels)) {
		switch {
		case !strings.HasPrefix(name, prefix) || name == "tenon.sh/kubelet-change":
		case slices.Contains(Annotations(), name):
			say("nothing reads the label " + name + ": it has to be an annotation")
		default:
			say("nothing reads the label " + clip(name))
		}
	}
	name := p.Spec.SchedulerName
	if name != "" && !slices.Contains(schedulers, name) && printable.Nearest(name, schedulers) != "" {
		say(may(fmt.Sprintf("no scheduler named %q is known", printable.Clip(name, maxName)), name, schedulers))
	}
	return out
}

func clip(name string) string { return printable.Text(printable.Clip(name, maxName)) }
