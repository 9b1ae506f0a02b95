package deploy_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes/scheme"
	schedulerv1 "k8s.io/kube-scheduler/config/v1"
	strictyaml "sigs.k8s.io/yaml"

	"github.com/tenon-numa/tenon/api/config"
	"github.com/tenon-numa/tenon/deploy"
)

// kustomization is what of a kustomization.yaml is used here.
type kustomization struct {
	APIVersion         string   `json:"apiVersion"`
	Kind               string   `json:"kind"`
	Resources          []string `json:"resources"`
	ConfigMapGenerator []struct {
		Name      string   `json:"name"`
		Namespace string   `json:"namespace"`
		Files     []string `json:"files"`
		Options   struct {
			Labels map[string]string `json:"labels"`
		} `json:"options"`
	} `json:"configMapGenerator"`
}

// parts are the folders that are applied with everything.
func parts(t *testing.T) []string {
	t.Helper()
	return read(t, ".").Resources
}

func read(t *testing.T, dir string) (k kustomization) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "kustomization.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := strictyaml.UnmarshalStrict(data, &k); err != nil {
		t.Fatalf("%s: %v", dir, err)
	}
	return k
}

// kubectl apply -k installs every file of a part, and finds all that it names.
func TestNoFileIsForgotten(t *testing.T) {
	if len(parts(t)) < 5 {
		t.Errorf("parts %v, want the definition, the namespace, the policy, the agent and the scheduler", parts(t))
	}
	for _, dir := range parts(t) {
		k := read(t, dir)
		named := k.Resources
		for _, g := range k.ConfigMapGenerator {
			named = append(named, g.Files...)
		}
		slices.Sort(named)
		there, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		for _, path := range there {
			if name := filepath.Base(path); name != "kustomization.yaml" &&
				path != "crd/topology.node.k8s.io_noderesourcetopologies.yaml" {
				want = append(want, name)
			}
		}
		if !slices.Equal(named, want) {
			t.Errorf("%s names %v and has %v", dir, named, want)
		}
	}
}

// objects decodes the manifests of the parts that have Kubernetes' own kinds. A field that the kind does
// not have is an error.
func objects(t *testing.T) map[string][]runtime.Object {
	t.Helper()
	out := map[string][]runtime.Object{}
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	for _, dir := range parts(t) {
		if dir == "crd" {
			continue
		}
		for _, name := range read(t, dir).Resources {
			data, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			for _, doc := range documents(t, data) {
				o, _, err := decoder.Decode(doc, nil, nil)
				if err != nil {
					t.Errorf("%s/%s: %v", dir, name, err)
					continue
				}
				out[dir] = append(out[dir], o)
			}
		}
	}
	return out
}

func documents(t *testing.T, data []byte) (out [][]byte) {
	t.Helper()
	docs := yaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, doc)
	}
}

func TestManifestsDecode(t *testing.T) {
	for dir, list := range objects(t) {
		if len(list) == 0 {
			t.Errorf("%s has no object", dir)
		}
	}
}

// Access embeds all manifests except those that run a program.
func TestAccessIsWhatUsersApply(t *testing.T) {
	var embedded, there []string
	for _, m := range deploy.Access() {
		embedded = append(embedded, string(m))
	}
	for _, dir := range parts(t) {
		for _, name := range read(t, dir).Resources {
			if dir == "crd" || name == "daemonset.yaml" || name == "deployment.yaml" {
				continue
			}
			data, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			there = append(there, string(data))
		}
	}
	if !slices.Equal(embedded, there) {
		t.Error("the embedded manifests are not those that kubectl apply -k installs, in their order")
	}
}

// The role lets the scheduler hold the lease that its configuration names.
func TestSchedulerMayHoldItsLease(t *testing.T) {
	data, err := os.ReadFile("scheduler/scheduler.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var c schedulerv1.KubeSchedulerConfiguration
	if err := strictyaml.UnmarshalStrict(data, &c); err != nil {
		t.Fatal(err)
	}
	if c.LeaderElection.ResourceNamespace != deploy.Namespace || c.LeaderElection.ResourceName != deploy.Scheduler {
		t.Errorf("the lease is %s/%s, and the role is for %s/%s", c.LeaderElection.ResourceNamespace,
			c.LeaderElection.ResourceName, deploy.Namespace, deploy.Scheduler)
	}
}

// A restart replaces schedulers one after the other: a standby is there to take the lease before the leader ends.
func TestARestartKeepsAScheduler(t *testing.T) {
	found := false
	for _, list := range objects(t) {
		for _, o := range list {
			d, ok := o.(*appsv1.Deployment)
			if !ok || d.Name != deploy.Scheduler {
				continue
			}
			found = true
			if d.Spec.Replicas == nil || *d.Spec.Replicas < 2 || d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
				t.Errorf("the Deployment has replicas %v and strategy %v", d.Spec.Replicas, d.Spec.Strategy)
			}
		}
	}
	if !found {
		t.Error("there is no Deployment " + deploy.Scheduler)
	}
}

// Whoever takes over a container of Tenon's holds no capability, changes no file of the node or of the
// image, and is in no namespace of the node.
func TestContainersAreConfined(t *testing.T) {
	pods := map[string]v1.PodSpec{}
	for _, list := range objects(t) {
		for _, o := range list {
			switch o := o.(type) {
			case *appsv1.DaemonSet:
				pods[o.Name] = o.Spec.Template.Spec
			case *appsv1.Deployment:
				pods[o.Name] = o.Spec.Template.Spec
			}
		}
	}
	if len(pods) != 2 {
		t.Fatalf("%d workloads, want the agent and the scheduler", len(pods))
	}
	for name, p := range pods {
		if p.HostNetwork || p.HostPID || p.HostIPC {
			t.Errorf("%s: is in a namespace of the node", name)
		}
		if s := p.SecurityContext.SeccompProfile; s == nil || s.Type != v1.SeccompProfileTypeRuntimeDefault {
			t.Errorf("%s: seccomp profile %v", name, s)
		}
		for _, c := range p.Containers {
			s := c.SecurityContext
			if *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem ||
				!slices.Equal(s.Capabilities.Drop, []v1.Capability{"ALL"}) ||
				len(s.Capabilities.Add) > 0 || (s.Privileged != nil && *s.Privileged) {
				t.Errorf("%s: security context %v", name, s)
			}
			for _, m := range c.VolumeMounts {
				if !m.ReadOnly {
					t.Errorf("%s: %s can be written to", name, m.MountPath)
				}
			}
			if c.Resources.Limits.Memory().IsZero() {
				t.Errorf("%s has no limit of memory", name)
			}
			if c.LivenessProbe == nil || c.ReadinessProbe == nil {
				t.Errorf("%s has no probe of its life, or none of its readiness", name)
			}
		}
	}
}

// Secrets of pods, the kubelet's key and the drivers' sockets are not in what the agent sees.
func TestAgentSeesNoSecrets(t *testing.T) {
	const root = "/var/lib/kubelet"
	for _, o := range objects(t)["agent"] {
		d, ok := o.(*appsv1.DaemonSet)
		if !ok {
			continue
		}
		empty := map[string]bool{}
		for _, v := range d.Spec.Template.Spec.Volumes {
			empty[v.Name] = v.EmptyDir != nil
		}
		var hidden []string
		for _, m := range d.Spec.Template.Spec.Containers[0].VolumeMounts {
			if below, ok := strings.CutPrefix(m.MountPath, root+"/"); ok && empty[m.Name] {
				hidden = append(hidden, below)
			}
		}
		slices.Sort(hidden)
		if want := []string{"pki", "plugins", "plugins_registry", "pods"}; !slices.Equal(hidden, want) {
			t.Errorf("hidden below %s: %v, want %v", root, hidden, want)
		}
	}
}

// A role of Tenon's names what it allows: no wildcard, and nothing that leads to other rights. Only the role for
// people who change kubelets has nodes/proxy, and the manifests do not bind it.
func TestRolesAreNarrow(t *testing.T) {
	const changes = "tenon-kubelet-operator"
	wide := []string{"*", "secrets", "nodes/proxy", "pods/exec", "serviceaccounts/token", "impersonate",
		"escalate", "bind"}
	seen := 0
	for dir, list := range objects(t) {
		for _, o := range list {
			var rules []rbacv1.PolicyRule
			name := ""
			switch o := o.(type) {
			case *rbacv1.ClusterRole:
				name, rules = o.Name, o.Rules
			case *rbacv1.Role:
				name, rules = o.Name, o.Rules
			case *rbacv1.ClusterRoleBinding:
				if o.RoleRef.Name == changes {
					t.Errorf("%s: %s is bound to %v", dir, changes, o.Subjects)
				}
			}
			for _, r := range rules {
				seen++
				for _, word := range slices.Concat(r.APIGroups, r.Resources, r.Verbs) {
					if slices.Contains(wide, word) && !(name == changes && word == "nodes/proxy") {
						t.Errorf("%s: role %s has %s", dir, name, word)
					}
				}
			}
		}
	}
	if seen == 0 {
		t.Error("there are no roles")
	}
}

// The roles for people are not bound. The role that is added to view has Tenon's own kinds alone, and no role for
// readers has a right to write.
func TestRolesForPeople(t *testing.T) {
	reads := []string{"get", "list", "watch"}
	found := map[string]bool{}
	for _, o := range objects(t)["people"] {
		switch o := o.(type) {
		case *rbacv1.ClusterRole:
			found[o.Name] = true
			aggregated := o.Labels["rbac.authorization.k8s.io/aggregate-to-view"] == "true"
			if aggregated != (o.Name == "tenon-view") {
				t.Errorf("%s is added to the role view: %t", o.Name, aggregated)
			}
			for _, r := range o.Rules {
				if aggregated && !slices.Equal(r.APIGroups, []string{"tenon.sh"}) {
					t.Errorf("whoever has view gets %v of %v, too", r.Resources, r.APIGroups)
				}
				writes := slices.DeleteFunc(slices.Clone(r.Verbs), func(v string) bool { return slices.Contains(reads, v) })
				review := slices.Equal(r.Resources, []string{"subjectaccessreviews"})
				if len(writes) > 0 && !review && !strings.HasPrefix(o.Name, "tenon-kubelet-") &&
					o.Name != "tenon-pod-mover" {
					t.Errorf("%s may %v %v", o.Name, writes, r.Resources)
				}
			}
		case *rbacv1.Role:
			found[o.Namespace+"/"+o.Name] = true
		default:
			t.Errorf("the folder has a %T", o)
		}
	}
	want := []string{"tenon-agents/tenon-operator", "tenon-kubelet-changer", "tenon-kubelet-operator", "tenon-nodes-view",
		"tenon-operator", "tenon-pod-mover", "tenon-system/tenon-operator", "tenon-view"}
	if got := slices.Sorted(maps.Keys(found)); !slices.Equal(got, want) {
		t.Errorf("there are the roles %v, want %v", got, want)
	}
}

// Only a program that mounts directories of its node is in a namespace that permits that. In the network only the named
// clients reach either program.
func TestNamespacesAndNetworksAreNarrow(t *testing.T) {
	levels, closed, where := map[string]string{}, map[string]bool{}, map[string]string{}
	for _, list := range objects(t) {
		for _, o := range list {
			switch o := o.(type) {
			case *v1.Namespace:
				levels[o.Name] = o.Labels["pod-security.kubernetes.io/enforce"]
			case *networkingv1.NetworkPolicy:
				rules := o.Spec.Ingress
				if len(rules) != 1 || len(rules[0].From) == 0 || len(rules[0].Ports) == 0 ||
					!slices.Equal(o.Spec.PolicyTypes, []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}) {
					t.Errorf("%s: rules are %+v", o.Name, o.Spec)
				}
				closed[o.Namespace+"/"+o.Spec.PodSelector.MatchLabels["app.kubernetes.io/name"]] = true
			case *appsv1.DaemonSet:
				where[o.Name] = o.Namespace
			case *appsv1.Deployment:
				where[o.Name] = o.Namespace
			}
		}
	}
	secured := map[string]string{deploy.Namespace: "restricted", deploy.AgentNamespace: "privileged"}
	if !maps.Equal(levels, secured) {
		t.Errorf("levels of namespaces are %v, want %v", levels, secured)
	}
	want := map[string]string{deploy.Scheduler: deploy.Namespace, deploy.Agent: deploy.AgentNamespace}
	if !maps.Equal(where, want) {
		t.Errorf("workloads are in %v, want %v", where, want)
	}
	for name, namespace := range where {
		if !closed[namespace+"/"+name] {
			t.Errorf("no policy closes the ports of %s", name)
		}
	}
}

// TestTheChartTakesThePluginsArguments: the chart's schema has the arguments that the plugin has, and no value that the
// plugin refuses. Otherwise a wrong argument would be found by a scheduler that does not start.
func TestTheChartTakesThePluginsArguments(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("chart", "values.schema.json"))
	if err != nil {
		t.Fatal(err)
	}
	type node struct {
		Enum       []any
		Minimum    *int
		Maximum    *int
		Properties map[string]node
	}
	var schema node
	if err := json.Unmarshal(data, &schema); err != nil {
		t.Fatal(err)
	}
	arguments := schema.Properties["scheduler"].Properties["arguments"].Properties
	var want []string
	for f := range reflect.TypeFor[config.Args]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !slices.Contains([]string{"-", "apiVersion", "kind"}, name) {
			want = append(want, name)
		}
	}
	slices.Sort(want)
	if got := slices.Sorted(maps.Keys(arguments)); !slices.Equal(got, want) {
		t.Errorf("the chart takes the arguments %v, the plugin %v", got, want)
	}
	takes := func(text string) error {
		_, err := config.Decode(config.Tenon, &runtime.Unknown{Raw: []byte(text)})
		return err
	}
	for name, n := range arguments {
		for _, v := range n.Enum {
			if err := takes(fmt.Sprintf("{%q: %q}", name, v)); err != nil {
				t.Errorf("the chart takes %s: %v, and the plugin does not: %v", name, v, err)
			}
		}
		if n.Maximum == nil {
			continue
		}
		for _, v := range []int{*n.Minimum, *n.Maximum} {
			if err := takes(fmt.Sprintf("{%q: %d}", name, v)); err != nil {
				t.Errorf("the chart takes %s: %d, and the plugin does not: %v", name, v, err)
			}
		}
		if takes(fmt.Sprintf("{%q: %d}", name, *n.Maximum+1)) == nil {
			t.Errorf("the plugin takes %s: %d, and the chart does not", name, *n.Maximum+1)
		}
	}
	for _, v := range arguments["scoringStrategy"].Properties["type"].Enum {
		if err := takes(fmt.Sprintf("{scoringStrategy: {type: %q}}", v)); err != nil {
			t.Errorf("the chart takes the scoring strategy %v, and the plugin does not: %v", v, err)
		}
	}
}
