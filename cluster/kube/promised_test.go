package kube

import (
	"fmt"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/api/provisioning"
)

func ofCPUs(n int64) *v1.Pod {
	amounts := v1.ResourceList{"cpu": *resource.NewQuantity(n, resource.DecimalSI), "memory": resource.MustParse("1Gi")}
	return &v1.Pod{Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: "i",
		Resources: v1.ResourceRequirements{Requests: amounts, Limits: amounts}}}}}
}

// booking returns a request for two pods of 4 CPUs, on a and b, and one of 2, on b.
func booking(t *testing.T) provisioning.Request {
	t.Helper()
	r := provisioning.Request{ObjectMeta: metav1.ObjectMeta{Namespace: "ml", Name: "job"},
		Spec: provisioning.Spec{ProvisioningClassName: apipod.Class, PodSets: []provisioning.PodSet{{Count: 2}, {Count: 1}}},
		Status: provisioning.Status{ProvisioningClassDetails: map[string]string{}, Conditions: []metav1.Condition{{
			Type: provisioning.Provisioned, Status: metav1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon)}}}}
	for set, nodes := range [][]string{{"a", "b"}, {"b"}} {
		if err := provisioning.SetBooked(r.Status.ProvisioningClassDetails, set, nodes, ofCPUs(int64(4-2*set))); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func came(node string, cpus int64) *v1.Pod {
	p := ofCPUs(cpus)
	p.Namespace, p.Name, p.Spec.NodeName = "ml", fmt.Sprint("on-", node, cpus), node
	p.Annotations = map[string]string{apipod.ConsumeAnnotation: "job", apipod.ClassAnnotation: apipod.Class}
	return p
}

// text returns the CPUs of the pods for which room is kept, by node.
func text(kept map[string]*Kept) string {
	out := map[string][]int64{}
	for node, k := range kept {
		for _, p := range k.Promised {
			out[node] = append(out[node], p.Pod.Containers[0].MilliCPU/1000)
		}
		if sum := k.Amounts["ml/job"]["cpu"]; len(out[node]) == 0 || sum < 2000 {
			out[node] = append(out[node], -sum)
		}
	}
	return fmt.Sprint(out)
}

func TestKeptRoomIsWhatTheStatusSays(t *testing.T) {
	for name, c := range map[string]struct {
		change func(r *provisioning.Request)
		pods   []*v1.Pod
		after  time.Duration
		want   string
	}{
		"kept":                   {want: "map[a:[4] b:[4 2]]"},
		"one has come":           {pods: []*v1.Pod{came("b", 4)}, want: "map[a:[4] b:[2]]"},
		"one has come elsewhere": {pods: []*v1.Pod{came("c", 2)}, want: "map[a:[4] b:[4]]"},
		"more than asked": {pods: []*v1.Pod{came("a", 4), came("b", 4), came("b", 2), came("b", 2)},
			want: "map[]"},
		"another's pod": {pods: []*v1.Pod{ofCPUs(4)}, want: "map[a:[4] b:[4 2]]"},
		"expired":       {after: 10 * time.Minute, want: "map[]"},
		"lasts longer": {change: func(r *provisioning.Request) {
			r.Spec.Parameters = map[string]string{provisioning.BookingSeconds: "3600"}
		}, after: 10 * time.Minute, want: "map[a:[4] b:[4 2]]"},
		"over": {change: func(r *provisioning.Request) {
			r.Status.Conditions = append(r.Status.Conditions, metav1.Condition{Type: provisioning.BookingExpired,
				Status: metav1.ConditionTrue})
		}, want: "map[]"},
		"another class": {change: func(r *provisioning.Request) { r.Spec.ProvisioningClassName = "x" }, want: "map[]"},
		"of an older scheduler": {change: func(r *provisioning.Request) {
			delete(r.Status.ProvisioningClassDetails, "tenon.sh/pod-1")
		}, want: "map[]"},
		"too many to be true": {change: func(r *provisioning.Request) {
			r.Spec.PodSets[0].Count = 1 << 30
			r.Status.ProvisioningClassDetails["tenon.sh/places-0"] = `[{"node":"a","count":1073741824}]`
		}, want: "map[]"},
	} {
		t.Run(name, func(t *testing.T) {
			r := booking(t)
			if c.change != nil {
				c.change(&r)
			}
			var pods []v1.Pod
			for _, p := range c.pods {
				pods = append(pods, *p)
			}
			kept, all := KeptBy([]provisioning.Request{r}, StoreAll(pods), noon.Add(c.after))
			if got := text(kept); got != c.want || !all {
				t.Errorf("kept is %s, want %s (all: %t)", got, c.want, all)
			}
		})
	}
}

// Pods of a controller that a request names use up its room if they were created later, each once.
func TestPodsOfAControllerUseUpRoom(t *testing.T) {
	request := func(name string) provisioning.Request {
		r := booking(t)
		r.Name, r.CreationTimestamp = name, metav1.NewTime(noon)
		r.Spec.PodSets = r.Spec.PodSets[1:]
		r.Spec.Parameters = map[string]string{provisioning.PodsOf: "set"}
		r.Status.ProvisioningClassDetails["tenon.sh/places-0"] = `[{"node":"b","count":1}]`
		return r
	}
	of := func(uid string, after time.Duration) v1.Pod {
		p := ofCPUs(4)
		p.Namespace, p.Name, p.Spec.NodeName = "ml", fmt.Sprint(uid, after), "b"
		p.CreationTimestamp = metav1.NewTime(noon.Add(after))
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "ReplicaSet", UID: types.UID(uid), Controller: new(true)}}
		return *p
	}
	for name, c := range map[string]struct {
		pods []v1.Pod
		want int
	}{
		"none has come":      {nil, 2},
		"an older sibling":   {[]v1.Pod{of("set", -time.Minute)}, 2},
		"of another":         {[]v1.Pod{of("other", time.Minute)}, 2},
		"one has come":       {[]v1.Pod{of("set", time.Minute)}, 1},
		"both have come":     {[]v1.Pod{of("set", time.Minute), of("set", time.Hour)}, 0},
		"more than expected": {[]v1.Pod{of("set", 0), of("set", time.Minute), of("set", time.Hour)}, 0},
	} {
		kept, _ := KeptBy([]provisioning.Request{request("m-0"), request("m-1")}, StoreAll(c.pods), noon)
		n := 0
		if k := kept["b"]; k != nil {
			n = len(k.Promised)
		}
		if n != c.want {
			t.Errorf("%s: room is kept for %d pods, want %d", name, n, c.want)
		}
	}
}

// However many requests somebody has written, what is kept is bounded, and the rest is not passed over.
func TestKeptRoomIsBounded(t *testing.T) {
	r := booking(t)
	r.Spec.PodSets = []provisioning.PodSet{{Count: provisioning.MaxPods}}
	r.Status.ProvisioningClassDetails["tenon.sh/places-0"] = fmt.Sprintf(`[{"node":"a","count":%d}]`, provisioning.MaxPods)
	var many []provisioning.Request
	for i := range 2 * maxKept / provisioning.MaxPods {
		r.Name = fmt.Sprint("r", i)
		many = append(many, r)
	}
	v := &View{}
	v.Keep(many, noon)
	if n := len(v.Kept["a"].Promised); n != maxPromised || len(v.Limits()) != 1 {
		t.Errorf("%d promised pods, limits %v", n, v.Limits())
	}
}

// Devices are kept on nodes where the request keeps places, in bounded number.
func TestKeptDevicesAreWhatTheStatusSays(t *testing.T) {
	on := func(node string, n int) (out provisioning.DevicesOn) {
		out = provisioning.DevicesOn{Node: node, Driver: "d", Pool: "p"}
		for i := range n {
			out.Devices = append(out.Devices, fmt.Sprint(i))
		}
		return out
	}
	for name, c := range map[string]struct {
		list []provisioning.DevicesOn
		pods []*v1.Pod
		want string
		all  bool
	}{
		"kept":             {list: []provisioning.DevicesOn{on("a", 2), on("b", 1)}, want: "map[a:2 b:1]", all: true},
		"on no node of it": {list: []provisioning.DevicesOn{on("a", 1), on("c", 9)}, want: "map[a:1 b:0]", all: true},
		"all on it have come": {list: []provisioning.DevicesOn{on("a", 2)}, pods: []*v1.Pod{came("a", 4)},
			want: "map[b:0]", all: true},
	} {
		r := booking(t)
		if err := provisioning.SetDevices(r.Status.ProvisioningClassDetails, c.list); err != nil {
			t.Fatal(err)
		}
		var pods []v1.Pod
		for _, p := range c.pods {
			pods = append(pods, *p)
		}
		kept, all := KeptBy([]provisioning.Request{r}, StoreAll(pods), noon)
		got := map[string]int{}
		for node, k := range kept {
			got[node] = len(k.Devices)
			for _, d := range k.Devices {
				if d.Request != "ml/job" || !d.Until.Equal(noon.Add(10*time.Minute)) || d.Driver != "d" || d.Pool != "p" {
					t.Errorf("%s: %+v", name, d)
				}
			}
		}
		if fmt.Sprint(got) != c.want || all != c.all {
			t.Errorf("%s: kept are %v, want %s (all: %t)", name, got, c.want, all)
		}
	}
	var many []provisioning.Request
	for i := range 12 {
		r := booking(t)
		r.Name = fmt.Sprint("job-", i)
		list := []provisioning.DevicesOn{on("a", 4_000)}
		if err := provisioning.SetDevices(r.Status.ProvisioningClassDetails, list); err != nil {
			t.Fatal(err)
		}
		many = append(many, r)
	}
	if kept, all := KeptBy(many, nil, noon); len(kept["a"].Devices) != 40_000 || all {
		t.Errorf("%d devices are kept (all: %t)", len(kept["a"].Devices), all)
	}
}
