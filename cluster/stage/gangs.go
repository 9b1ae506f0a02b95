package stage

import (
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	podapi "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/cluster/group"
	"github.com/tenon-numa/tenon/core/printable"
)

// This file reads the marks of gangs on pods, and PodGroups of Kubernetes. It reads no groups of others, which may ask
// for a single pod, and does not count the pods of a group that run.

// startsWith names for people the group of a pod that a scheduler starts together with others; "" if a pod has none.
// Whether the pod's scheduler is the one that reads the mark is not known.
func startsWith(p *v1.Pod) string {
	for _, m := range append([]Mark{{"PodGroup", group.Of(&p.Spec), ""}}, marks(p)...) {
		if m.Name != "" {
			return m.kind + " " + printable.Text(p.Namespace+"/"+printable.Clip(m.Name, 100))
		}
	}
	return ""
}

// Mark is what a pod has so that a scheduler starts it together with others.
type Mark struct {
	kind string // what the scheduler calls those pods
	Name string // theirs
	// Scheduler is the one that reads the mark, such as "Volcano".
	Scheduler string
}

// Marks returns the marks of a pod for schedulers that have gangs of their own.
func Marks(p *v1.Pod) []Mark {
	return slices.DeleteFunc(marks(p), func(m Mark) bool { return m.Name == "" })
}

// marks returns all marks; those that the pod lacks have no name.
func marks(p *v1.Pod) []Mark {
	return []Mark{{"PodGroup", volcanoGroup(p), "Volcano"},
		{"PodGroup", p.Labels[podapi.CoschedulingGroup], "Coscheduling or Koordinator"},
		{"gang", p.Annotations[podapi.KoordinatorGang], "Koordinator"},
		{"task group", p.Annotations[podapi.YuniKornGroup], "YuniKorn"}}
}

// maxGroups bounds the PodGroups that are read, one by one.
const maxGroups = 32

// readGroups finds out for which PodGroups of pods that wait a pod starts alone, as in groups with the policy basic. A
// group that is not read may ask for several pods. The groups of the most important pods are read first, and none after
// that of a namespace where the identity may read none. No plan is made for pods that are held.
func (s *Stage) readGroups(ctx context.Context,
	startsAlone func(_ context.Context, namespace, name string) (bool, error)) {
	s.single = map[string]bool{}
	closed := map[string]bool{}
	for _, p := range s.waiting() {
		name := group.Of(&p.Spec)
		id := p.Namespace + "/" + name
		if _, known := s.single[id]; known || isHeld(p) || name == "" || closed[p.Namespace] {
			continue
		}
		alone, err := startsAlone(ctx, p.Namespace, name)
		if s.single[id] = err == nil && alone; len(s.single) == maxGroups {
			return
		}
		closed[p.Namespace] = apierrors.IsForbidden(err)
	}
}

// gang names for people the group of a pod that waits; "" if the pod may start alone.
func (s *Stage) gang(p *v1.Pod) string {
	if name := group.Of(&p.Spec); name != "" && s.single[p.Namespace+"/"+name] {
		return ""
	}
	return startsWith(p)
}

// volcanoGroup returns the name of Volcano's PodGroup of a pod; "" if there is none, or if Volcano has made it for the
// controller of the pod, or for the pod alone (GeneratePodgroupName in volcano.sh/apis 1.14). Such a group asks for one
// pod, unless the controller has the annotation scheduling.volcano.sh/group-min-member, which pods do not show.
func volcanoGroup(p *v1.Pod) string {
	own := p.UID
	if owner := metav1.GetControllerOfNoCopy(p); owner != nil {
		own = owner.UID
	}
	if name := p.Annotations[podapi.VolcanoGroup]; name != "podgroup-"+string(own) {
		return name
	}
	return ""
}

// inGang reports whether a pod has a mark of a gang, also of one that only its controller keeps together.
func inGang(p *v1.Pod) bool {
	return startsWith(p) != "" || p.Labels["kueue.x-k8s.io/pod-group-name"] != "" ||
		p.Labels["leaderworkerset.sigs.k8s.io/name"] != ""
}
