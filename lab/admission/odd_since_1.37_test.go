//go:build !upto1.36

package admission

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"strings"
	"testing"

	_ "k8s.io/kubernetes/pkg/apis/core/install"

	"github.com/tenon-numa/tenon/cluster/manifest"
)

var (
	oddPods = flag.Int("odd.pods", 400, "odd pods that the API server's code and the reader of files judge")
	oddSeed = flag.Uint64("odd.seed", 0, "seed of the odd pods; 0: another one each time")
)

type object = map[string]any

// An odd pod is a usual one with some changes. The API server may accept or refuse each change. The reader of files
// must accept the same pods as the API server, with the same requests.
func TestOddPodsAreJudgedAsByTheAPIServer(t *testing.T) {
	r, seed := drawing(t)
	taken, refused, bad := 0, 0, 0
	for i := range *oddPods {
		text := oddPod(r)
		stored, err := Create(t.Context(), text)
		file, mine := manifest.Read(text)
		if err == nil {
			taken++
		} else {
			refused++
		}
		switch {
		case (err == nil) != (mine == nil):
			bad++
			t.Errorf("pod %d of seed %d:\n%s\nAPI server: %v\nfile: %v", i, seed, text, err, mine)
		case err == nil:
			want, _ := json.Marshal([]any{stored.Spec.Resources, stored.Spec.Containers[0].Resources})
			p := file.Templates[0].Pod
			got, _ := json.Marshal([]any{p.Spec.Resources, p.Spec.Containers[0].Resources})
			if string(got) != string(want) {
				t.Errorf("pod %d of seed %d:\n%s\nis stored with %s\nread with       %s", i, seed, text, want, got)
			}
		}
		if bad > 20 {
			t.Fatal("and so on")
		}
	}
	t.Logf("%d taken, %d refused", taken, refused)
	if taken < *oddPods/10 || refused < *oddPods/10 {
		t.Errorf("%d taken, %d refused: the pods are not odd in both ways", taken, refused)
	}
}

// drawing returns what odd pods are drawn from, and its seed.
func drawing(t *testing.T) (r *rand.Rand, seed uint64) {
	t.Helper()
	for seed = *oddSeed; seed == 0; {
		seed = rand.Uint64()
	}
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0)), seed
}

// oddPod returns a usual pod with up to three changes.
func oddPod(r *rand.Rand) []byte {
	spec := object{"containers": []any{usual(r, "main"), usual(r, "side")}}
	pod := object{"apiVersion": "v1", "kind": "Pod", "metadata": object{"name": "x"}, "spec": spec}
	for range 1 + r.IntN(5)/2 {
		oddities[r.IntN(len(oddities))](r, pod, spec)
	}
	text, err := json.Marshal(pod)
	if err != nil {
		panic(err) // it is made of maps and texts
	}
	return text
}

func usual(r *rand.Rand, name string) object {
	c := object{"name": name, "image": "example.com/x"}
	if r.IntN(2) == 0 {
		c["resources"] = object{"limits": object{"cpu": pick(r, "2", "500m"), "memory": pick(r, "1Gi", "512Mi")}}
	}
	return c
}

func pick[T any](r *rand.Rand, list ...T) T { return list[r.IntN(len(list))] }

// one returns one of the containers of a spec, or a new init container.
func one(r *rand.Rand, spec object) object {
	if all := spec["containers"].([]any); r.IntN(4) > 0 && len(all) > 0 {
		return pick(r, all...).(object)
	}
	c := object{"name": pick(r, "init", "init2", "main"), "image": "y"}
	if r.IntN(2) == 0 {
		c["restartPolicy"] = "Always"
	}
	list, _ := spec["initContainers"].([]any)
	spec["initContainers"] = append(list, c)
	return c
}

// under returns the object in a field, which it makes if it is not there.
func under(o object, field string) object {
	x, ok := o[field].(object)
	if !ok {
		x = object{}
		o[field] = x
	}
	return x
}

var resourceNames = []string{"cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "hugepages-1Gi", "hugepages-3Mi",
	"hugepages-", "hugepages-0", "hugepages-x", "nvidia.com/gpu", "gpu", "a/b/c", "a.com/b/c", "requests.nvidia.com/gpu",
	"kubernetes.io/foo", "kubernetes.io/batch-cpu", "x.kubernetes.io/y", "pods", "requests.cpu", "storage",
	"limits.memory",
	"attachable-volumes-aws-ebs", "Example.com/Gpu", "example.com/", "/gpu", "example.com/g p", "example.com/-g", "",
	"example.com/" + strings.Repeat("g", 60), "example.com/" + strings.Repeat("g", 64), strings.Repeat("a", 245) +
		".com/g"}

// Amounts below a thousandth are rounded by the API server, so they are not drawn.
var resourceAmounts = []any{1, 2, 4, 0, -1, "1", "2", "500m", "1500m", "0.5", "2.0", "1k", "1Gi", "2Gi", "4Mi", "3Mi",
	"1500Mi",
	"1e3", "-4Mi", "1024", "2Ei", "0", "4g", "1 Gi", "", "1e", "+2", "9E"}

func amountsIn(r *rand.Rand, resources object, names []string) {
	for range 1 + r.IntN(2) {
		name, amount := pick(r, names...), pick(r, resourceAmounts...)
		switch r.IntN(4) {
		case 0:
			under(resources, "requests")[name] = amount
		case 1:
			under(resources, "requests")[name] = amount
			under(resources, "limits")[name] = pick(r, amount, amount, pick(r, resourceAmounts...))
		default:
			under(resources, "limits")[name] = amount
		}
	}
}

// values makes an oddity that sets a field of the spec to one of some values.
func values(field string, all ...any) func(*rand.Rand, object, object) {
	return func(r *rand.Rand, _, spec object) { spec[field] = pick(r, all...) }
}

// ofContainer is the same for a field of a container.
func ofContainer(field string, all ...any) func(*rand.Rand, object, object) {
	return func(r *rand.Rand, _, spec object) { one(r, spec)[field] = pick(r, all...) }
}

var texts = []any{"x", "X_1", "a b", "", "-a", strings.Repeat("b", 70), "a.b", "a/b", "example.com/a", "é"}

var labelKeys = []string{"a", "a b", "example.com/a", "a/b/c", "", "-a", strings.Repeat("k", 64)}

func labels(r *rand.Rand) object { return object{pick(r, labelKeys...): pick(r, texts...)} }

func labelSelector(r *rand.Rand) any {
	switch r.IntN(4) {
	case 0:
		return object{"matchLabels": labels(r)}
	case 1:
		return object{"matchExpressions": []any{object{"key": pick(r, labelKeys...),
			"operator": pick(r, "In", "Exists", "NotIn", "Is", "Gt"), "values": pick(r, []any{}, []any{"a"}, []any{"a b"})}}}
	case 2:
		return nil
	}
	return object{}
}

func nodeTerm(r *rand.Rand) object {
	x := object{"key": pick(r, labelKeys...), "operator": pick(r, "In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt",
		"Is", ""),
		"values": pick(r, []any{}, []any{"1"}, []any{"1", "2"}, []any{"a b"})}
	if r.IntN(3) > 0 {
		return object{"matchExpressions": []any{x}}
	}
	x["key"] = pick(r, "metadata.name", "metadata.namespace", "a")
	return object{"matchFields": []any{x}}
}

func podTerm(r *rand.Rand) object {
	x := object{"topologyKey": pick(r, "kubernetes.io/hostname", "zone", "", "a b"), "labelSelector": labelSelector(r)}
	if r.IntN(4) == 0 {
		x["namespaces"] = []any{pick(r, texts...)}
	}
	if r.IntN(4) == 0 {
		x["namespaceSelector"] = labelSelector(r)
	}
	for _, field := range []string{"matchLabelKeys", "mismatchLabelKeys"} {
		if r.IntN(6) == 0 {
			x[field] = []any{pick(r, labelKeys...)}
		}
	}
	return x
}

var oddities = []func(r *rand.Rand, pod, spec object){
	func(r *rand.Rand, _, spec object) { amountsIn(r, under(one(r, spec), "resources"), resourceNames) },
	func(r *rand.Rand, _, spec object) { amountsIn(r, under(one(r, spec), "resources"), resourceNames[:10]) },
	func(r *rand.Rand, _, spec object) { amountsIn(r, under(one(r, spec), "resources"), resourceNames[:10]) },
	func(r *rand.Rand, _, spec object) { amountsIn(r, under(spec, "resources"), resourceNames[:11]) },
	func(r *rand.Rand, _, spec object) { amountsIn(r, under(spec, "resources"), resourceNames[:5]) },
	func(r *rand.Rand, _, spec object) {
		spec["overhead"] = object{pick(r, resourceNames...): pick(r, resourceAmounts...)}
	},
	func(r *rand.Rand, _, spec object) {
		under(one(r, spec), "resources")["claims"] = []any{object{"name": pick(r, "g", "h", "")},
			object{"name": pick(r, "g", "k"), "request": pick(r, "", "r", "R")}}[:1+r.IntN(2)]
	},
	func(r *rand.Rand, _, spec object) {
		var list []any
		for range 1 + r.IntN(2) {
			c := object{"name": pick(r, "g", "g", "h", "k", "", "G")}
			for _, field := range []string{"resourceClaimName", "resourceClaimTemplateName"} {
				if r.IntN(2) == 0 {
					c[field] = pick(r, texts...)
				}
			}
			list = append(list, c)
		}
		spec["resourceClaims"] = list
	},
	func(r *rand.Rand, pod, _ object) { under(pod, "metadata")["name"] = pick(r, texts...) },
	func(r *rand.Rand, pod, _ object) { under(pod, "metadata")["labels"] = labels(r) },
	func(r *rand.Rand, pod, _ object) { under(pod, "metadata")["annotations"] = labels(r) },
	ofContainer("name", append([]any{"main", "side"}, texts...)...),
	ofContainer("image", "", " x", "x y", "example.com/x:1"),
	ofContainer("restartPolicy", "Always", "Never", "OnFailure", "Sometimes"),
	ofContainer("imagePullPolicy", "Always", "Never", "Sometimes", "IfNotPresent"),
	ofContainer("terminationMessagePolicy", "File", "FallbackToLogsOnError", "Log"),
	ofContainer("resizePolicy", []any{object{"resourceName": "cpu", "restartPolicy": "NotRequired"}},
		[]any{object{"resourceName": "cpu", "restartPolicy": "RestartContainer"}},
		[]any{object{"resourceName": "gpu", "restartPolicy": "NotRequired"}},
		[]any{object{"resourceName": "cpu", "restartPolicy": "NotRequired"},
			object{"resourceName": "cpu", "restartPolicy": "NotRequired"}}),
	ofContainer("livenessProbe", object{"tcpSocket": object{"port": 80}}),
	ofContainer("volumeMounts", []any{object{"name": "v", "mountPath": "/v"}}, []any{object{"name": "w",
		"mountPath": "/v"}},
		[]any{object{"name": "v", "mountPath": ""}},
		[]any{object{"name": "v", "mountPath": "/v"}, object{"name": "v", "mountPath": "/v"}}),
	ofContainer("env", []any{object{"name": "A", "value": "b"}}, []any{object{"name": ""}}),
	ofContainer("ports", []any{object{"containerPort": 1, "hostPort": 80}, object{"containerPort": 2, "hostPort": 80}},
		[]any{object{"containerPort": 0}}, []any{object{"containerPort": 70000}}, []any{object{"containerPort": 80,
			"hostPort": 80}},
		[]any{object{"containerPort": 80, "protocol": "ICMP"}}, []any{object{"containerPort": 80, "name": "Web_1"}},
		[]any{object{"containerPort": 80, "name": "web"}, object{"containerPort": 81, "name": "web"}},
		[]any{object{"containerPort": 80, "hostPort": 81}}, []any{object{"containerPort": 80, "hostPort": 80,
			"protocol": "UDP"},
			object{"containerPort": 80, "hostPort": 80}}),
	values("volumes", []any{object{"name": "v", "emptyDir": object{}}}, []any{object{"name": "V", "emptyDir": object{}}},
		[]any{object{"name": "v", "emptyDir": object{}}, object{"name": "v", "emptyDir": object{}}}),
	values("containers", []any{}),
	values("hostNetwork", true),
	values("restartPolicy", "Always", "Never", "OnFailure", "Sometimes"),
	values("dnsPolicy", "None", "Default", "ClusterFirst", "Mine"),
	values("preemptionPolicy", "Never", "PreemptLowerPriority", "Sometimes"),
	values("os", object{"name": "linux"}, object{"name": "plan9"}, object{"name": "windows"}),
	values("nodeName", texts...), values("serviceAccountName", texts...), values("priorityClassName", texts...),
	values("hostname", texts...), values("subdomain", texts...), values("runtimeClassName", texts...),
	values("activeDeadlineSeconds", 0, 1, -1, 1<<31), values("terminationGracePeriodSeconds", 0, -1, 30),
	values("shareProcessNamespace", true), values("hostPID", true), values("hostUsers", false),
	values("schedulingGates", []any{object{"name": "a"}}, []any{object{"name": "a b"}},
		[]any{object{"name": "a"}, object{"name": "a"}}),
	values("readinessGates", []any{object{"conditionType": "a b"}}, []any{object{"conditionType": "example.com/a"}}),
	values("tolerations", []any{object{"operator": "Exists"}}, []any{object{"key": "a", "operator": "Equals",
		"value": "b"}},
		[]any{object{"key": "a b", "operator": "Exists"}}, []any{object{"operator": "Equal", "value": "b"}},
		[]any{object{"key": "a", "operator": "Exists", "value": "b"}}, []any{object{"key": "a", "value": "a b"}},
		[]any{object{"key": "a", "effect": "NoWay"}}, []any{object{"key": "a", "tolerationSeconds": 5}},
		[]any{object{"key": "a", "value": "b", "effect": "NoExecute", "tolerationSeconds": 5}}),
	func(r *rand.Rand, _, spec object) { spec["nodeSelector"] = labels(r) },
	func(r *rand.Rand, _, spec object) {
		var list []any
		for range 1 + r.IntN(2) {
			x := object{"maxSkew": pick(r, 0, 1, 1, 2, -1), "topologyKey": pick(r, "zone", "zone", "host", ""),
				"whenUnsatisfiable": pick(r, "DoNotSchedule", "DoNotSchedule", "ScheduleAnyway", "Never", "")}
			for _, more := range []object{{"minDomains": pick(r, 0, 1, 3)}, {"nodeAffinityPolicy": pick(r, "Honor", "No")},
				{"nodeTaintsPolicy": pick(r, "Ignore", "No")}, {"matchLabelKeys": []any{pick(r, "a", "a b")}}} {
				if r.IntN(5) == 0 {
					maps.Copy(x, more)
				}
			}
			if r.IntN(2) == 0 {
				x["labelSelector"] = labelSelector(r)
			}
			list = append(list, x)
		}
		spec["topologySpreadConstraints"] = list
	},
	func(r *rand.Rand, _, spec object) {
		a := under(under(spec, "affinity"), "nodeAffinity")
		if r.IntN(2) == 0 {
			a["preferredDuringSchedulingIgnoredDuringExecution"] = []any{object{"weight": pick(r, 0, 1, 100, 101),
				"preference": nodeTerm(r)}}
			return
		}
		a["requiredDuringSchedulingIgnoredDuringExecution"] = object{"nodeSelectorTerms": []any{nodeTerm(r)}[:min(1,
			r.IntN(8))]}
	},
	func(r *rand.Rand, _, spec object) {
		a := under(under(spec, "affinity"), pick(r, "podAffinity", "podAntiAffinity"))
		if r.IntN(2) == 0 {
			a["preferredDuringSchedulingIgnoredDuringExecution"] = []any{object{"weight": pick(r, 0, 1, 100, 101),
				"podAffinityTerm": podTerm(r)}}
			return
		}
		a["requiredDuringSchedulingIgnoredDuringExecution"] = []any{podTerm(r)}
	},
	func(r *rand.Rand, _, spec object) { spec[fmt.Sprint("typo", r.IntN(2))] = 1 },
}
