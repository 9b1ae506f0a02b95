package manifest

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// container is indented for the spec of a template.
const container = `
      containers:
      - name: main
        image: example.com/main
        resources:
          limits: {cpu: "4", memory: 8Gi, nvidia.com/gpu: 1}
`

func workload(kind, api, spec string) string {
	return "apiVersion: " + api + "\nkind: " + kind + "\nmetadata: {name: x, namespace: ml}\nspec:\n" + spec +
		"  template:\n    spec:" + container
}

func TestHowManyPodsAnObjectHas(t *testing.T) {
	for _, c := range []struct {
		text    string
		count   int
		perNode bool
	}{
		{workload("Deployment", "apps/v1", "  replicas: 3\n"), 3, false},
		{workload("Deployment", "apps/v1", ""), 1, false},
		{workload("Deployment", "apps/v1", "  replicas: 0\n"), 0, false},
		{workload("StatefulSet", "apps/v1", "  replicas: 5\n"), 5, false},
		{workload("ReplicaSet", "apps/v1", "  replicas: 2\n"), 2, false},
		{workload("ReplicationController", "v1", "  replicas: 2\n"), 2, false},
		{workload("DaemonSet", "apps/v1", ""), 0, true},
		{workload("Job", "batch/v1", "  parallelism: 8\n"), 8, false},
		{workload("Job", "batch/v1", "  parallelism: 8\n  completions: 3\n"), 3, false},
		{workload("Job", "batch/v1", "  completions: 3\n"), 1, false},
		{`{"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "x", "namespace": "ml"}, "spec": {"jobTemplate": {"spec": {"parallelism": 4,
			"template": {"spec": {"containers": [{"name": "main", "image": "i", "resources": {"limits": {"cpu": 4, "nvidia.com/gpu": 1}}}]}}}}}}`, 4, false},
		{"apiVersion: v1\nkind: Pod\nmetadata: {name: x, namespace: ml}\nspec:" + strings.ReplaceAll(container, "\n      ",
			"\n  "), 1, false},
	} {
		f, err := Read([]byte(c.text))
		if err != nil {
			t.Errorf("%v in\n%s", err, c.text)
			continue
		}
		x := f.Templates[0]
		if len(f.Templates) != 1 || x.Count != c.count || x.PerNode != c.perNode || x.Namespace != "ml" || x.Name != "x" {
			t.Errorf("%s: %d pods, per node %v; want %d, %v", x, x.Count, x.PerNode, c.count, c.perNode)
		}
		r := x.Pod.Spec.Containers[0].Resources.Requests
		if cpu, gpu := r[v1.ResourceCPU], r["nvidia.com/gpu"]; cpu.Value() != 4 || gpu.Value() != 1 {
			t.Errorf("%s: requests are %v: limits are not taken for them", x, r)
		}
	}
}

// The pods of a StatefulSet have their own claims, by its templates.
func TestClaimsOfAStatefulSetAreVolumesOfItsPods(t *testing.T) {
	for replicas, want := range map[int]string{1: "data-db-0", 3: "data-db-N"} {
		f, err := Read(fmt.Appendf(nil, `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: db}
spec:
  replicas: %d
  selector: {matchLabels: {a: b}}
  serviceName: db
  template:
    metadata: {labels: {a: b}}
    spec:
      volumes: [{name: data, emptyDir: {}}, {name: tmp, emptyDir: {}}]
      containers: [{name: c, image: i}]
  volumeClaimTemplates:
  - metadata: {name: data}
    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
`, replicas))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, v := range f.Templates[0].Pod.Spec.Volumes {
			if v.PersistentVolumeClaim != nil {
				got = append(got, v.Name+"="+v.PersistentVolumeClaim.ClaimName)
			} else {
				got = append(got, v.Name)
			}
		}
		if text := strings.Join(got, " "); text != "tmp data="+want {
			t.Errorf("%d replicas have the volumes %s, want tmp data=%s", replicas, text, want)
		}
	}
}

func TestFilesOfManyObjects(t *testing.T) {
	item := `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p%d"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}`
	list := fmt.Sprintf(`{"apiVersion": "v1", "kind": "List", "items": [`+item+`, `+item+`]}`, 1, 2)
	typed := `{"apiVersion": "v1", "kind": "PodList", "items": [{"metadata": {"name": "p3"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}]}`
	service := "apiVersion: v1\nkind: Service\nmetadata: {name: web}\n"
	f, err := Read([]byte("# nothing yet\n---\n" + list + "\n---\n" + service + "---\n" + typed + "\n---\n"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, x := range f.Templates {
		got = append(got, x.String())
	}
	if strings.Join(got, " ") != "Pod p1 Pod p2 Pod p3" {
		t.Errorf("read %q", got)
	}
	if len(f.Left) != 1 || f.Left[0] != "document 3: Service web (v1)" {
		t.Errorf("left out %q", f.Left)
	}
}

func TestPodLevelResourcesGetTheirRequests(t *testing.T) {
	f, err := Read([]byte(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {
		"resources": {"limits": {"cpu": "8", "memory": "4Gi"}},
		"containers": [{"name": "a", "image": "i", "resources": {"requests": {"cpu": "2"}}}, {"name": "b", "image": "i"}]}}`))
	if err != nil {
		t.Fatal(err)
	}
	r := f.Templates[0].Pod.Spec.Resources.Requests
	if cpu, memory := r[v1.ResourceCPU], r[v1.ResourceMemory]; cpu.Value() != 2 || memory.Value() != 4<<30 {
		t.Errorf("requests %v; want 2 cpu, as the containers ask, and 4Gi, as the limit says", r)
	}
}

// A pod that kubectl exported is reset to its state before it had a node.
func TestExportedPodsLoseTheirNode(t *testing.T) {
	const text = `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"%s}, "spec": {"nodeName": "a", "containers": [{"name": "c", "image": "i"}]}, "status": {"phase": "Running", "qosClass": "Guaranteed"}}`
	for uid, want := range map[string]string{"": "a", `, "uid": "1"`: ""} {
		f, err := Read([]byte(fmt.Sprintf(text, uid)))
		if err != nil {
			t.Fatal(err)
		}
		if p := f.Templates[0].Pod; p.Spec.NodeName != want || p.Status.QOSClass != "" {
			t.Errorf("uid %q: node %q, class %q; want node %q and no class", uid, p.Spec.NodeName, p.Status.QOSClass, want)
		}
	}
}

// Text that only looks like a number with an exponent is accepted.
func TestNamesMayLookLikeNumbers(t *testing.T) {
	f, err := Read(
		[]byte(
			`{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-1e12345", "labels": {"hash": "7e12345ab"}}, "spec": {"containers": [{"name": "c", "image": "x:1.2e1000-b"}]}}`))
	if err != nil || f.Templates[0].Name != "web-1e12345" {
		t.Errorf("error %v", err)
	}
}

func TestErrorsNameDocumentObjectAndField(t *testing.T) {
	good := workload("Deployment", "apps/v1", "")
	replace := func(old, new string) string { return "---\n" + good + "---\n" + strings.Replace(good, old, new, 1) }
	pod := func(spec string) string {
		return `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": ` + spec + `}`
	}
	for name, c := range map[string]struct{ text, want string }{
		"typing error": {replace("resources:", "resurces:"),
			`document 2: Deployment x: unknown field "spec.template.spec.containers[0].resurces"`},
		"case": {replace("containers:", "Containers:"),
			`document 2: Deployment x: unknown field "spec.template.spec.Containers"`},
		"amount": {replace("8Gi", "8Gigs"),
			`document 2: Deployment x: spec.template.spec.containers[0].resources.limits.memory: "8Gigs" is not an amount`},
		"exponent": {replace("8Gi", `"1e-1000000000"`),
			`document 2: Deployment x: spec.template.spec.containers[0].resources.limits.memory: "1e-1000000000" is not an amount`},
		"exponent in JSON": {pod(`{"overhead": {"cpu": 1e-1000000000}, "containers": [{"name": "a", "image": "i"}]}`),
			`document 1: Pod x: spec.overhead.cpu: "1e-1000000000" is not an amount`},
		"below zero": {replace(`"4"`, `"-4"`),
			`document 2: Deployment x: spec.template.spec.containers[0].resources.limits.cpu: "-4" is not an amount`},
		"replicas": {replace("spec:\n", "spec:\n  replicas: -1\n"),
			"document 2: Deployment x: spec.replicas: -1 is outside 0..100000"},
		"many replicas": {replace("spec:\n", "spec:\n  replicas: 100001\n"),
			"document 2: Deployment x: spec.replicas: 100001 is outside"},
		"words as replicas": {replace("spec:\n", "spec:\n  replicas: three\n"),
			"document 2: Deployment x: json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas"},
		"no name": {replace("{name: x, namespace: ml}", "{}"), "document 2: Deployment: metadata.name is missing"},
		"bad name": {replace("name: x,", "name: X,"),
			`document 2: Deployment X: metadata.name: "X": a lowercase RFC 1123 subdomain`},
		"no containers": {pod(`{"containers": []}`), "document 1: Pod x: the pod has no containers"},
		"twice": {pod(`{"containers": [{"name": "a", "image": "i"}, {"name": "a"}]}`),
			`document 1: Pod x: containers[1]: name "a" is there twice`},
		"above limit": {pod(`{"containers": [{"name": "a", "image": "i", "resources": {"requests": {"cpu": 2}, "limits": {"cpu": 1}}}]}`),
			"containers[0] (a): resources: cpu: request 2 is above the limit 1"},
		"device without limit": {pod(`{"containers": [{"name": "a", "image": "i", "resources": {"requests": {"nvidia.com/gpu": 2}}}]}`),
			"containers[0] (a): resources: nvidia.com/gpu: request and limit must be the same"},
		"half a device": {pod(`{"containers": [{"name": "a", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "500m"}}}]}`),
			"nvidia.com/gpu: 500m is not a whole number"},
		"no resource": {pod(`{"containers": [{"name": "a", "image": "i", "resources": {"limits": {"gpu": 1}}}]}`),
			`"gpu" is no resource`},
		"yaml":          {"a: b: c", "document 1: "},
		"twice in yaml": {replace("spec:\n", "spec:\n  replicas: 1\n  replicas: 2\n"), "document 2: "},
		"scalar":        {"42", "document 1: not an object"},
		"no kind":       {"{}", "document 1: apiVersion or kind is missing"},
		"nothing":       {"", "no pods"},
		"only services": {"apiVersion: v1\nkind: Service\nmetadata: {name: web}\n", "no pods"},
		"item": {
			`{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}]}`,
			"document 1, item 1: Pod x: the pod has no containers"},
		"lists in lists": {strings.Repeat(`{"apiVersion": "v1", "kind": "List", "items": [`, 5) + strings.Repeat("]}", 5),
			"lists in lists"},
		"cursor": {strings.ReplaceAll(pod(`{"containers": []}`), `"x"`, `"\u001b[2J"`),
			"document 1: Pod ?[2J: metadata.name"},
	} {
		f, err := Read([]byte(c.text))
		if err == nil || !strings.HasPrefix(err.Error(), c.want) && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
		if f != nil {
			t.Errorf("%s: something was read all the same", name)
		}
	}
	many := strings.Repeat("---\n"+`{"apiVersion": "v1", "kind": "Service"}`+"\n", MaxObjects+1)
	if _, err := Read([]byte(many)); err == nil || !strings.Contains(err.Error(), "more than 10000 objects") {
		t.Errorf("too many objects: error %v", err)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(workload("Deployment", "apps/v1", "  replicas: 3\n"))
	f.Add(workload("Job", "batch/v1", "  completions: 3\n"))
	f.Add(torch("ClusterTrainingRuntime", "{mpi: {runLauncherAsNode: true}}", node) + "---\n" + trainJob("{runtimeRef: "+
		"{name: numa}, trainer: {numNodes: 2, image: x, resourcesPerNode: {limits: {cpu: 2}}}, runtimePatches: [{manager: "+
		"m, trainingRuntimeSpec: {template: {spec: {replicatedJobs: [{name: node, template: {spec: {template: {spec: "+
		"{nodeSelector: {a: b}}}}}}]}}}}]}"))
	f.Add(podsNamed(jsonPod, "\n---\n", "a", "b"))
	f.Add(inUTF16(podsNamed(blockPod, "...\n", "a", "b"), binary.LittleEndian))
	f.Add(custom("slinky.slurm.net/v1beta1", "NodeSet", "{slurmd: {image: i}, logfile: {image: i}, template: {spec: {}}}"))
	f.Add(
		`{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		file, err := Read([]byte(text))
		if err != nil {
			return
		}
		for _, x := range file.Templates {
			if x.Count < 0 || x.Count > MaxPods || x.Name == "" || len(x.Pod.Spec.Containers) == 0 {
				t.Errorf("%q was read as %+v", text, x)
			}
			if err := check(x.Pod); err != nil {
				t.Errorf("%q was read as a pod with %v", text, err)
			}
			if _, err := Like(x.Pod); err != nil {
				t.Errorf("one more of %s: %v", x, err)
			}
		}
	})
}

// A key of a merged mapping may be overridden, as kubectl takes it; a key that is there twice is an error.
func TestMergedMappingsMayBeOverridden(t *testing.T) {
	const form = `
apiVersion: v1
kind: Pod
metadata: {name: anchors}
spec:
  containers:
  - &base
    name: a
    image: i
    resources: {limits: {cpu: 4, memory: 8Gi}}
  - <<: *base
    name: b
`
	f, err := Read([]byte(form))
	if err != nil {
		t.Fatal(err)
	}
	second := f.Templates[0].Pod.Spec.Containers[1]
	if cpu := second.Resources.Requests[v1.ResourceCPU]; second.Name != "b" || second.Image != "i" || cpu.Value() != 4 {
		t.Errorf("the second container is %+v", second)
	}
	if _, err := Read([]byte(strings.Replace(form, "  - <<: *base\n    name: b\n", "    image: j\n", 1))); err == nil {
		t.Error("a key that is there twice is taken")
	}
}
