package stage

import (
	"cmp"
	"context"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	podapi "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/cluster/group"
	"github.com/tenon-numa/tenon/cluster/kube"
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
		{"PodGroup", p.Labels[podapi.CoschedulingGroup], "Coscheduling"},
		{"gang", koordinatorGang(p), "Koordinator"},
		{"task group", p.Annotations[podapi.YuniKornGroup], "YuniKorn"}}
}

// maxGroups bounds the PodGroups of pods that wait which are read, one by one, and maxMoving the ones of pods on nodes.
const (
	maxGroups = 32
	maxMoving = 128
)

// readGroups reads PodGroups of pods: first of pods that wait, for which plans are made, the most important first; then
// of pods on nodes, which may move. Where a group is not read, its pods start only with others, and do not move.
// None is read after the first of a namespace where the identity may read none.
func (s *Stage) readGroups(ctx context.Context,
	podGroup func(_ context.Context, namespace, name string) (kube.PodGroup, error)) {
	s.groups = map[string]*kube.PodGroup{}
	closed := map[string]bool{}
	read := func(pods []*v1.Pod, most int) {
		for _, p := range pods {
			id := groupOf(p)
			if _, known := s.groups[id]; known || isHeld(p) || id == "" || closed[p.Namespace] {
				continue
			}
			if most--; most < 0 {
				return
			}
			g, err := podGroup(ctx, p.Namespace, strings.TrimPrefix(id, p.Namespace+"/"))
			if s.groups[id] = nil; err == nil {
				s.groups[id] = &g
			}
			closed[p.Namespace] = apierrors.IsForbidden(err)
		}
	}
	read(s.waiting(), maxGroups)
	read(s.grouped(), maxMoving)
}

// groupOf returns the PodGroup of Kubernetes of a pod, "namespace/name", or "".
func groupOf(p *v1.Pod) string {
	if name := group.Of(&p.Spec); name != "" {
		return p.Namespace + "/" + name
	}
	return ""
}

// gang names for people the group of a pod that waits; "" if the pod may start alone.
func (s *Stage) gang(p *v1.Pod) string {
	if g := s.groups[groupOf(p)]; g != nil && g.StartsAlone() {
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

// koordinatorGang returns the name of Koordinator's gang of a pod, or "".
func koordinatorGang(p *v1.Pod) string {
	return cmp.Or(p.Labels[podapi.KoordinatorGroup], p.Labels[podapi.KoordinatorLightweight],
		p.Annotations[podapi.KoordinatorGang])
}

// inForeignGang reports whether a pod has a mark of a gang that is no PodGroup of Kubernetes, also of one that only its
// controller keeps together.
func inForeignGang(p *v1.Pod) bool {
	return len(Marks(p)) > 0 || p.Labels["kueue.x-k8s.io/pod-group-name"] != "" ||
		p.Labels["leaderworkerset.sigs.k8s.io/name"] != ""
}
