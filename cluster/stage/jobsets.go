package stage

import (
	"context"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	podapi "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/cluster/kube"
)

// This file finds out which pods of JobSets may be evicted. Their Jobs create them again, but a JobSet whose Job fails
// fails, too, or begins anew with all pods.

// readJobs reads the Jobs of the namespaces that have pods of JobSets which say that they may be evicted. Where that
// fails or is forbidden, these pods stay: a plan of others needs no Jobs.
func (s *Stage) readJobs(ctx context.Context,
	jobs func(_ context.Context, namespace string) (list []batchv1.Job, known bool, err error)) {
	s.spares, s.jobless = nil, map[string]bool{}
	for p := range kube.EachPod(s.pods) {
		_, read := s.jobless[p.Namespace]
		if read || !ofJobSet(p) || p.Annotations[podapi.SafeToEvict] != "true" || p.Spec.NodeName == "" || kube.Ended(p) {
			continue
		}
		list, known, err := jobs(ctx, p.Namespace)
		s.addJobs(list)
		s.jobless[p.Namespace] = err != nil || !known
	}
}

// addJobs adds the Jobs for which an evicted pod is no failure.
func (s *Stage) addJobs(list []batchv1.Job) {
	for i := range list {
		if !sparesEvicted(list[i].Spec.PodFailurePolicy) {
			continue
		}
		if s.spares == nil {
			s.spares = map[types.UID]bool{}
		}
		s.spares[list[i].UID] = true
	}
}

// sparesEvicted reports whether a rule of a Job ignores an evicted pod before another rule may match it: the first that
// matches counts. With which codes its containers end is not known.
func sparesEvicted(policy *batchv1.PodFailurePolicy) bool {
	if policy == nil {
		return false
	}
	for _, r := range policy.Rules {
		if r.OnExitCodes != nil {
			return false
		}
		if slices.ContainsFunc(r.OnPodConditions, func(c batchv1.PodFailurePolicyOnPodConditionsPattern) bool {
			return c.Type == v1.DisruptionTarget && c.Status == v1.ConditionTrue
		}) {
			return r.Action == batchv1.PodFailurePolicyActionIgnore
		}
	}
	return false
}

func ofJobSet(p *v1.Pod) bool { return p.Labels["jobset.sigs.k8s.io/jobset-name"] != "" }

// jobSetKeeps returns why a pod stays because of its JobSet; "" if it may move, or is of none.
func (s *Stage) jobSetKeeps(p *v1.Pod) string {
	if !ofJobSet(p) {
		return ""
	}
	if p.Annotations[podapi.JobSetExclusive] != "" {
		return "is of a JobSet that keeps its pods together, so all of them would have to move"
	}
	if s.jobless[p.Namespace] {
		return "is of a JobSet, whose Jobs could not be read"
	}
	if owner := metav1.GetControllerOfNoCopy(p); owner == nil || !s.spares[owner.UID] {
		return "is of a JobSet, and no rule is known by which its Job ignores evictions (podFailurePolicy)"
	}
	return ""
}
