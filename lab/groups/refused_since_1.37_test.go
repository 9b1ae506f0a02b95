//go:build !upto1.36

package groups_test

import (
	"context"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/tenon-numa/tenon/lab/scheduler"
	"github.com/tenon-numa/tenon/lab/workload"
)

// A gang's third pod asks for a sysctl that only its kubelet judges, and refuses. An event on the gang says so, and a
// pod that is created in its place makes the gang whole.
func TestAMemberThatItsKubeletRefusesIsReplaced(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	_, client, pods := startRunning(ctx, t, scheduler.Tenon, nil)
	member := func(name string, sysctls ...v1.Sysctl) *v1.Pod {
		p := ofCPUs(name, 8)
		group := "train"
		p.Spec.SchedulingGroup = &v1.PodSchedulingGroup{PodGroupName: &group}
		p.Spec.SecurityContext = &v1.PodSecurityContext{Sysctls: sysctls}
		return p
	}
	g := group{name: "train", need: 3, pods: []*v1.Pod{member("train-0"), member("train-1"),
		member("train-2", v1.Sysctl{Name: "kernel.msgmax", Value: "65536"})}}
	g.create(ctx, t, client)
	until := func(want progress) {
		t.Helper()
		if all, err := pods.Until(ctx, func(all []*v1.Pod) bool { return g.progress(all) == want }); err != nil {
			t.Fatalf("%+v: %v", g.progress(all), err)
		}
	}
	until(progress{bound: 3, running: 2, refused: 1})
	const want = "refused pod train-2 of the group (SysctlForbidden): 2 others have nodes, and the group needs 3"
	if note := eventOf(ctx, t, client, "train"); !strings.Contains(note, want) {
		t.Errorf("the event on the group is %q, want %q", note, want)
	}
	if err := client.CoreV1().Pods("default").Delete(ctx, "train-2", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := workload.Create(ctx, client, member("train-3")); err != nil {
		t.Fatal(err)
	}
	until(progress{bound: 3, running: 3})
}

// eventOf waits for the event on a group that a pod was refused, and returns its note.
func eventOf(ctx context.Context, t *testing.T, client kubernetes.Interface, name string) string {
	t.Helper()
	w, err := client.EventsV1().Events("default").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	group, err := client.SchedulingV1beta1().PodGroups("default").Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for e := range w.ResultChan() {
		if e, ok := e.Object.(*eventsv1.Event); ok && e.Regarding.Kind == "PodGroup" && e.Reason == "MemberRefused" &&
			e.Regarding.UID == group.UID {
			return e.Note
		}
	}
	t.Fatalf("no event: %v", ctx.Err())
	return ""
}
