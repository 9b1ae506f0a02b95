//go:build !upto1.36

package plugin

import (
	"context"
	"fmt"
	"runtime/pprof"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	schedulingv1beta1 "k8s.io/api/scheduling/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/component-base/featuregate"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/klog/v2"
	upstream "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	schedapi "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/tenon-numa/tenon/scheduler/fwk"
)

// BenchmarkGroupsAgainstPlain measures what it takes kube-scheduler to choose nodes for a gang of equal pods, as
// BenchmarkAgainstPlain measures single pods: kube-scheduler's own group cycle, from the update of its snapshot to the
// second Reserve of each pod. Then a plugin at Permit refuses each pod, which is the same for all contenders, and
// kube-scheduler takes back what it has reserved.
func BenchmarkGroupsAgainstPlain(b *testing.B) {
	for _, gate := range []featuregate.Feature{features.GenericWorkload, features.TopologyAwareWorkloadScheduling} {
		featuregatetesting.SetFeatureGateDuringTest(b, utilfeature.DefaultFeatureGate, gate, true)
	}
	for _, nodes := range []int{100, 1000, 5000} {
		for _, size := range []int{8, 64} {
			b.Run(fmt.Sprintf("nodes=%d/gang=%d", nodes, size), func(b *testing.B) {
				y := newYard(b, nodes, 50)
				y.compareGroups(b, size, y.open(b, "plain", staying(plainProfile(b))),
					y.openWith(b, "idle", staying(shippedProfile(b)), newIdle), y.open(b, "tenon", staying(shippedProfile(b))))
			})
		}
	}
}

// staying adds the plugin that permits no pod.
func staying(list []schedapi.KubeSchedulerProfile) []schedapi.KubeSchedulerProfile {
	for i := range list {
		if list[i].Plugins == nil {
			list[i].Plugins = &schedapi.Plugins{}
		}
		list[i].Plugins.Permit.Enabled = append(list[i].Plugins.Permit.Enabled, schedapi.Plugin{Name: stays})
	}
	return list
}

// compareGroups has contenders choose nodes for the same gangs, in turns. Of all rounds, the least CPU time of each
// counts.
func (y *yard) compareGroups(b *testing.B, size int, all ...*contender) {
	least := make([]float64, len(all))
	rounds := 0
	for b.Loop() {
		rounds++
		pods := y.pods(6 * 32)[rounds%6] // a kind, which is a new one now and then
		for i, c := range all {
			group, members := c.gangOf(pods, fmt.Sprintf("gang-%d", rounds), size)
			pprof.SetGoroutineLabels(pprof.WithLabels(b.Context(), pprof.Labels("scheduler", c.name)))
			cpu := used(b)
			c.scheduleGroup(b, group, members)
			if took := float64(used(b)-cpu) / 1e3 / float64(size); rounds > 2 && (least[i] == 0 || took < least[i]) {
				least[i] = took
			}
		}
	}
	for i, c := range all {
		b.ReportMetric(least[i], c.name+"-cpu-us/pod")
	}
	b.ReportMetric(least[1]/least[0], "idle-x-plain")
	b.ReportMetric(least[len(all)-1]/least[0], "x-plain")
	b.ReportMetric(0, "ns/op")
}

// gangOf returns a gang of pods like one. Its status already has the condition that kube-scheduler writes, so that
// nothing is written.
func (c *contender) gangOf(like *v1.Pod, name string, size int) (*schedulingv1beta1.PodGroup, []*v1.Pod) {
	group := &schedulingv1beta1.PodGroup{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: like.Namespace},
		Spec: schedulingv1beta1.PodGroupSpec{SchedulingPolicy: schedulingv1beta1.PodGroupSchedulingPolicy{
			Gang: &schedulingv1beta1.GangSchedulingPolicy{MinCount: int32(size)}}},
		Status: schedulingv1beta1.PodGroupStatus{Conditions: []metav1.Condition{{Reason: "Scheduled",
			Type: schedulingv1beta1.PodGroupInitiallyScheduled, Status: metav1.ConditionTrue}}}}
	var members []*v1.Pod
	for i := range size {
		p := podOf(fmt.Sprintf("%s-%d", name, i), "cpu=1 memory=1Gi")
		p.Spec.Containers = like.DeepCopy().Spec.Containers
		p.Spec.SchedulerName = c.f.ProfileName()
		p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &group.Name}
		members = append(members, p)
	}
	return group, members
}

// scheduleGroup has kube-scheduler try a gang once, and fails unless all its pods reached Permit.
func (c *contender) scheduleGroup(b *testing.B, group *schedulingv1beta1.PodGroup, pods []*v1.Pod) {
	b.Helper()
	c.sched.Cache.AddPodGroup(group)
	entity := &framework.QueuedPodGroupInfo{PodGroupInfo: &framework.PodGroupInfo{Namespace: group.Namespace,
		Name: group.Name, Type: upstream.PodGroupKeyType, PodGroup: group, UnscheduledPods: pods}}
	for _, p := range pods {
		c.sched.Cache.AddPodGroupMember(p)
		info, err := framework.NewPodInfo(p)
		if err != nil {
			b.Fatal(err)
		}
		entity.AddPod(&framework.QueuedPodInfo{PodInfo: info})
	}
	c.sched.NextEntity = func(klog.Logger) (framework.QueuedEntityInfo, error) { return entity, nil }
	permitted := 0
	c.sched.FailureHandler = func(_ context.Context, _ framework.Framework, info *framework.QueuedPodInfo, s *fwk.Status,
		_ *fwk.NominatingInfo, _ time.Time) {
		if !strings.Contains(s.Message(), stays) {
			b.Fatalf("%s: pod %s: %s", c.name, info.Pod.Name, s.Message())
		}
		permitted++
	}
	c.sched.ScheduleOne(b.Context())
	if permitted != len(pods) {
		b.Fatalf("%s: %d of %d pods of the gang reached Permit", c.name, permitted, len(pods))
	}
	for _, p := range pods {
		c.sched.Cache.RemovePodGroupMember(p)
	}
	c.sched.Cache.RemovePodGroup(klog.Background(), group)
}
