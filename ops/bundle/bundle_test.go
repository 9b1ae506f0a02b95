package bundle_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/tenon-numa/tenon/api/objects"
	"github.com/tenon-numa/tenon/api/objects/groups"
	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/api/provisioning"
	"github.com/tenon-numa/tenon/ops/bundle"
)

const jwt = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJzeXN0ZW0ifQ.c2lnbmF0dXJlLW9mLWl0"

// secrets are texts that no bundle may have. The objects of the server below have them in all places where users put
// them.
var secrets = []string{"s3cr3t", jwt, "BEGIN RSA PRIVATE KEY", "hunter2", "PASSWORD", "topsecret", "lastApplied"}

const (
	pods = `{"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": [
	 {"metadata": {"name": "trainer-7d9f-abcde", "namespace": "ml", "uid": "u1", "labels": {"app": "trainer"},
	   "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "lastApplied s3cr3t", "tenon.sh/align": "cpu",
	   "autoscaling.x-k8s.io/consume-provisioning-request": "job-of-ml",
	   "autoscaling.x-k8s.io/provisioning-class-name": "check-capacity.tenon.sh"},
	   "ownerReferences": [{"kind": "ReplicaSet", "name": "trainer-7d9f", "controller": true, "apiVersion": "apps/v1",
	     "uid": "u2"}]},
	  "spec": {"nodeName": "node-a", "containers": [{"name": "c", "image": "example.com/c:v1", "args": ["--key=s3cr3t"],
	    "command": ["s3cr3t"], "env": [{"name": "PASSWORD", "value": "s3cr3t"}],
	    "livenessProbe": {"httpGet": {"httpHeaders": [{"name": "Authorization", "value": "s3cr3t"}]}},
	    "resources": {"limits": {"cpu": "4"}}}], "volumes": [{"name": "v", "secret": {"secretName": "topsecret"}}],
	    "imagePullSecrets": [{"name": "topsecret"}]},
	  "status": {"containerStatuses": [{"name": "c", "lastState": {"terminated": {"exitCode": 1,
	    "message": "end of a log"}},
	    "state": {"waiting": {"reason": "CrashLoopBackOff"}}}], "phase": "Failed",
	   "message": "cannot pull from https://me:hunter2@example.com with token=s3cr3t on node-a"}},
	 {"metadata": {"name": "tenon-agent-x7k2p", "namespace": "tenon-agents", "uid": "u3",
	   "labels": {"app.kubernetes.io/name": "tenon-agent"}}, "spec": {"nodeName": "node-a"}},
	 {"metadata": {"name": "pretender", "namespace": "ml", "uid": "u4",
	   "labels": {"app.kubernetes.io/name": "tenon-agent"}}}]}`
	agentLog = "E1123 the API server says: Authorization: Bearer s3cr3t-s3cr3t\nI1123 publishing the layout of node-a\n" +
		"W1123 password=hunter2 " + jwt + "\n"
	events = `{"kind": "EventList", "apiVersion": "v1", "metadata": {}, "items": [
	 {"metadata": {"name": "e1", "namespace": "ml"}, "involvedObject": {"kind": "Pod", "name": "trainer-7d9f-abcde",
	   "uid": "u1"}, "reason": "FailedScheduling", "message": "Bearer s3cr3t-s3cr3t and ` + jwt + `",
	   "source": {"component": "tenon-scheduler"}},
	 {"metadata": {"name": "e2", "namespace": "ml"}, "involvedObject": {"kind": "Pod", "name": "other", "uid": "u9"},
	   "reason": "Scheduled", "reportingComponent": "default-scheduler"},
	 {"metadata": {"name": "e3", "namespace": "ml"}, "involvedObject": {"kind": "Secret", "name": "topsecret"}}]}`
	nodes = `{"kind": "NodeList", "apiVersion": "v1", "metadata": {}, "items": [
	 {"metadata": {"name": "node-a", "labels": {"kubernetes.io/hostname": "node-a"}}, "status": {"capacity": {"cpu": "8"},
	   "addresses": [{"address": "10.1.2.3"}]}}]}`
	configuration = `{"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "tenon-scheduler",
	 "namespace": "tenon-system"}, "data": {"scheduler.yaml": "kind: x"}}`
	resourceSlices = `{"kind": "ResourceSliceList", "apiVersion": "resource.k8s.io/v1", "metadata": {}, "items": [
	 {"metadata": {"name": "node-a-gpu.example.com-x2k9f"}, "spec": {"driver": "gpu.example.com", "nodeName": "node-a",
	  "pool": {"name": "node-a", "generation": 1, "resourceSliceCount": 1}, "devices": [{"name": "gpu-0",
	  "attributes": {"resource.kubernetes.io/numaNode": {"int": 1}}}]}}]}`
	claims = `{"kind": "ResourceClaimList", "apiVersion": "resource.k8s.io/v1", "metadata": {}, "items": [
	 {"metadata": {"name": "trainer-7d9f-abcde-gpus", "namespace": "ml"}, "spec": {"devices": {"requests": [{"name": "r",
	   "exactly": {"deviceClassName": "gpu"}}], "config": [{"opaque": {"driver": "gpu.example.com",
	   "parameters": {"key": "s3cr3t"}}}]}},
	  "status": {"allocation": {"devices": {"results": [{"request": "r", "driver": "gpu.example.com", "pool": "node-a",
	   "device": "gpu-0"}], "config": [{"opaque": {"driver": "gpu.example.com", "parameters": {"key": "s3cr3t"}}}]}},
	   "devices": [{"driver": "gpu.example.com", "pool": "node-a", "device": "gpu-0", "data": {"key": "s3cr3t"}}],
	   "reservedFor": [{"resource": "pods", "name": "trainer-7d9f-abcde", "uid": "u1"}]}}]}`
	classes = `{"kind": "DeviceClassList", "apiVersion": "resource.k8s.io/v1", "metadata": {}, "items": [
	 {"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/gpu", "config": [{"opaque": {
	  "driver": "gpu.example.com", "parameters": {"key": "s3cr3t"}}}]}}]}`
	requests = `{"kind": "ProvisioningRequestList", "apiVersion": "autoscaling.x-k8s.io/v1", "metadata": {}, "items": [
	 {"metadata": {"name": "job-of-ml", "namespace": "ml"}, "spec": {"provisioningClassName": "check-capacity.tenon.sh",
	   "parameters": {"bookingSeconds": "60", "key": "s3cr3t", "tenon.sh/pods-of": "u2"}, "podSets": [{"count": 1, "podTemplateRef": {"name": "t"}}]},
	  "status": {"conditions": [{"type": "Provisioned", "status": "True"}], "provisioningClassDetails": {
	   "foreign": "s3cr3t", "tenon.sh/devices-1": "[{\"key\":\"s3cr3t\"}]", "tenon.sh/devices-2": "s3cr3t",
	   "tenon.sh/devices-0": "[{\"node\":\"node-a\",\"driver\":\"gpu.example.com\",\"pool\":\"node-a\",\"devices\":[\"gpu-0\"]}]",
	   "tenon.sh/places-0": "[{\"node\":\"node-a\",\"count\":1}]",
	   "tenon.sh/pod-0": "{\"metadata\":{\"annotations\":{\"tenon.sh/numa\":\"x\",\"a.com/key\":\"s3cr3t\"}},\"spec\":{\"containers\":[{\"name\":\"main\",\"resources\":{\"requests\":{\"cpu\":\"4\"}}}]}}"}}}]}`
	layouts = `{"kind": "NodeLayoutList", "apiVersion": "tenon.sh/v1alpha1", "metadata": {}, "items": [
	 {"metadata": {"name": "node-a"}, "rules": {"cpuManagerPolicy": "static"}, "holdings": [{"namespace": "ml",
	   "name": "trainer-7d9f-abcde"}]}]}`
)

// server has the objects. It answers reviews of watch with yes, and refuses to list PersistentVolumes.
func server(t *testing.T) *rest.Config {
	lists := map[string]string{"/api/v1/pods": pods, "/api/v1/events": events, "/api/v1/nodes": nodes,
		"/api/v1/namespaces/tenon-system/configmaps/tenon-scheduler": configuration,
		"/apis/resource.k8s.io/v1/resourceslices":                    resourceSlices,
		"/apis/resource.k8s.io/v1/resourceclaims":                    claims,
		"/apis/resource.k8s.io/v1/deviceclasses":                     classes,
		"/apis/autoscaling.x-k8s.io/v1/provisioningrequests":         requests,
		"/apis/tenon.sh/v1alpha1/nodelayouts":                        layouts, "/version": `{"gitVersion": "v1.36.3"}`,
		"/api/v1/namespaces/tenon-agents/pods/tenon-agent-x7k2p/log": agentLog,
		"/api/v1/namespaces/ml/pods/pretender/log":                   "the log of a tenant"}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		code, body := http.StatusOK, lists[r.URL.Path]
		switch {
		case r.Method == http.MethodPost:
			var ask authorizationv1.SubjectAccessReview
			_ = json.NewDecoder(r.Body).Decode(&ask)
			ask.Status.Allowed = ask.Spec.ResourceAttributes.Verb == "watch"
			data, _ := json.Marshal(ask)
			body = string(data)
		case r.URL.Path == "/api/v1/persistentvolumes":
			code, body = 403, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden", "code": 403}`
		case body == "":
			code, body = 404, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404}`
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(s.Close)
	return &rest.Config{Host: s.URL}
}

func review(verb string) authorizationv1.SubjectAccessReviewSpec {
	return authorizationv1.SubjectAccessReviewSpec{User: "agent",
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: verb, Resource: "nodes"}}
}

// collected makes a bundle of the server, writes it and reads it back.
func collected(t *testing.T, hash bool) (*bundle.Bundle, string) {
	t.Helper()
	b, err := bundle.Collect(t.Context(), server(t), time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC), bundle.Options{
		Namespace: "ml", Hash: hash, LogLines: 20, Programs: []string{"tenon-agents"},
		ConfigMaps: []string{"tenon-system/tenon-scheduler"},
		Rights:     []authorizationv1.SubjectAccessReviewSpec{review("watch"), review("delete")},
		Texts:      map[string]string{"metrics/node-a.txt": "up{node=\"node-a\"} 1\npassword: hunter2\n"}})
	if err != nil {
		t.Fatal(err)
	}
	var file bytes.Buffer
	if err := b.Write(&file); err != nil {
		t.Fatal(err)
	}
	again, err := bundle.Read(bytes.NewReader(file.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	all, err := json.Marshal(again)
	if err != nil {
		t.Fatal(err)
	}
	return again, string(all)
}

func TestABundleHasNoSecrets(t *testing.T) {
	_, all := collected(t, false)
	for _, secret := range append(slices.Clone(secrets), "10.1.2.3", "the log of a tenant", "end of a log") {
		if strings.Contains(all, secret) {
			t.Errorf("the bundle has %q: %s", secret, all)
		}
	}
	for _, want := range []string{"trainer-7d9f-abcde", "tenon.sh/align", "scheduler.yaml", "cpuManagerPolicy",
		"FailedScheduling", "v1.36.3", "CrashLoopBackOff", `"exitCode":1`, `up{node=`, "publishing the layout"} {
		if !strings.Contains(all, want) {
			t.Errorf("the bundle lacks %q: %s", want, all)
		}
	}
}

func TestNamesMayBeHashed(t *testing.T) {
	b, all := collected(t, true)
	for _, name := range []string{"trainer-7d9f", "node-a", `"ml"`} {
		if strings.Contains(all, name) {
			t.Errorf("the bundle has the name %s: %s", name, all)
		}
	}
	meta := func(resource string) map[string]any {
		return b.Lists[resource][0]["metadata"].(map[string]any)
	}
	node, pod := meta("v1_nodes")["name"].(string), meta("v1_pods")["name"].(string)
	if got := meta("tenon.sh_v1alpha1_nodelayouts")["name"]; got != node {
		t.Errorf("the layout of node %s is of %v", node, got)
	}
	if owner := meta("v1_pods")["ownerReferences"].([]any)[0].(map[string]any)["name"].(string); !strings.HasPrefix(pod,
		owner+"-") {
		t.Errorf("pod %s does not begin with the name of its owner %s", pod, owner)
	}
	if !strings.Contains(all, pod) || !strings.Contains(all, `"cpuManagerPolicy":"static"`) {
		t.Errorf("the bundle is damaged: %s", all)
	}
}

func TestABundleAnswersAsTheServerDid(t *testing.T) {
	b, _ := collected(t, false)
	core, err := objects.NewCore(b.Config())
	if err != nil {
		t.Fatal(err)
	}
	pod, err := core.Pods.In("ml").Get(t.Context(), "trainer-7d9f-abcde", metav1.GetOptions{})
	if err != nil || pod.Spec.NodeName != "node-a" || pod.Spec.Containers[0].Resources.Limits.Cpu().Value() != 4 {
		t.Errorf("pod %+v, %v", pod, err)
	}
	for selector, want := range map[metav1.ListOptions]int{
		{}:                                       2,
		{FieldSelector: "involvedObject.uid=u1"}: 1,
		{FieldSelector: "source=default-scheduler"}: 1,
		{FieldSelector: "reason!=Scheduled"}:        1,
		{LabelSelector: "app=none"}:                 0,
	} {
		list, err := core.Events.List(t.Context(), selector)
		if err != nil || len(list.Items) != want {
			t.Errorf("events of %+v: %d, %v; want %d", selector, len(list.Items), err, want)
		}
	}
	if _, err := core.Pods.In("ml").Get(t.Context(), "gone", metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("of a pod that is not there: %v", err)
	}
	if _, err := core.Volumes.List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("of what could not be read: %v", err)
	}
	if _, err := core.Pods.Watch(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("of a watch: %v", err)
	}
	if err := core.Pods.In("ml").Delete(t.Context(), "a", metav1.DeleteOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("of a deletion: %v", err)
	}
}

// The bundle names as missing, with the status code, what the API server fails to answer, and has all else. Programs
// that read the bundle name it, too, and continue.
func TestWhatTheServerDoesNotAnswerIsNamed(t *testing.T) {
	whole := server(t)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path == "/api/v1/persistentvolumes" || r.Method == http.MethodPost || r.URL.Path == "/version":
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = io.WriteString(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 503}`)
		case r.URL.Path == "/api/v1/events": // one page of many
			item := `{"metadata": {"name": "e", "namespace": "ml"}, "involvedObject": {"kind": "Pod", "name": "x"}}`
			_, _ = io.WriteString(w, `{"kind": "EventList", "apiVersion": "v1", "metadata": {"continue": "more"}, "items": [`+
				strings.Repeat(item+",", 5000)+item+`]}`)
		default:
			http.Redirect(w, r, whole.Host+r.URL.RequestURI(), http.StatusTemporaryRedirect)
		}
	}))
	t.Cleanup(s.Close)
	b, err := bundle.Collect(t.Context(), &rest.Config{Host: s.URL}, time.Unix(0, 0), bundle.Options{
		Rights: []authorizationv1.SubjectAccessReviewSpec{review("watch")}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range b.Missing {
		if m.Code != http.StatusNotFound {
			got = append(got, fmt.Sprint(m.Resource, " ", m.Code, " ", m.Reason))
		}
	}
	want := []string{"authorization.k8s.io_v1_subjectaccessreviews 503 ServiceUnavailable",
		"v1_events beyond the first 5001 413 RequestEntityTooLarge", "v1_persistentvolumes 503 ServiceUnavailable",
		"version 503 ServiceUnavailable"}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("missing are %q, want %q", got, want)
	}
	if len(b.Lists["v1_nodes"]) != 1 || len(b.Lists["v1_pods"]) == 0 {
		t.Errorf("%d nodes and %d pods are there", len(b.Lists["v1_nodes"]), len(b.Lists["v1_pods"]))
	}
	core, err := objects.NewCore(b.Config())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := core.Volumes.List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) ||
		!strings.Contains(err.Error(), "could not read persistentvolumes: 503") {
		t.Errorf("of what could not be read: %v", err)
	}
}

// Who may list the pods of one namespace gets these, and the bundle answers as the API server did: it has the pods of
// that namespace, and refuses to list all. Hashed, the name of the namespace is not in the bundle.
func TestABundleOfOneNamespaceAnswersForIt(t *testing.T) {
	whole := server(t)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/api/v1/pods", "/api/v1/events":
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "Forbidden",
			 "code": 403}`)
		case "/api/v1/namespaces/ml/pods":
			_, _ = io.WriteString(w, pods)
		case "/api/v1/namespaces/ml/events":
			_, _ = io.WriteString(w, `{"kind": "EventList", "apiVersion": "v1", "metadata": {}, "items": []}`)
		default:
			http.Redirect(w, r, whole.Host+r.URL.RequestURI(), http.StatusTemporaryRedirect)
		}
	}))
	t.Cleanup(s.Close)
	for _, hash := range []bool{false, true} {
		b, err := bundle.Collect(t.Context(), &rest.Config{Host: s.URL}, time.Unix(0, 0), bundle.Options{Namespace: "ml",
			Hash: hash})
		if err != nil {
			t.Fatal(err)
		}
		core, err := objects.NewCore(b.Config())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := core.Pods.List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("hashed %t: a list of all pods: %v", hash, err)
		}
		if hash == (b.Namespace == "ml") {
			t.Errorf("hashed %t: the namespace is %q", hash, b.Namespace)
		}
		if l, err := core.Pods.In(b.Namespace).List(t.Context(), metav1.ListOptions{}); err != nil || len(l.Items) == 0 {
			t.Errorf("hashed %t: pods of namespace %s: %v", hash, b.Namespace, err)
		}
		if l, err := core.Events.In(b.Namespace).List(t.Context(), metav1.ListOptions{}); err != nil || len(l.Items) > 0 {
			t.Errorf("hashed %t: events of namespace %s: %v", hash, b.Namespace, err)
		}
		if _, err := core.Pods.In("web").List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
			t.Errorf("hashed %t: pods of another namespace: %v", hash, err)
		}
	}
}

// What drivers publish and what claims hold can be read from a bundle, and parameters of drivers are left out.
func TestABundleHasClaims(t *testing.T) {
	b, _ := collected(t, false)
	devices, err := groups.NewDevices(b.Config())
	if err != nil {
		t.Fatal(err)
	}
	published, err := devices.Slices.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(published.Items) != 1 || published.Items[0].Spec.Devices[0].Name != "gpu-0" {
		t.Errorf("slices %+v, %v", published, err)
	}
	all, err := devices.Claims.In("ml").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(all.Items) != 1 || all.Items[0].Status.Allocation.Devices.Results[0].Device != "gpu-0" ||
		all.Items[0].Status.ReservedFor[0].UID != "u1" {
		t.Errorf("claims %+v, %v", all, err)
	}
	served, err := devices.Classes.List(t.Context(), metav1.ListOptions{})
	if err != nil || len(served.Items) != 1 || *served.Items[0].Spec.ExtendedResourceName != "example.com/gpu" {
		t.Errorf("classes %+v, %v", served, err)
	}
}

// Which room requests keep can be read from a bundle. What else is in them is left out.
func TestABundleHasRequests(t *testing.T) {
	for _, hash := range []bool{false, true} {
		b, file := collected(t, hash)
		if strings.Contains(file, "s3cr3t") || hash && strings.Contains(file, "node-a") {
			t.Errorf("hashed %t: the bundle has what it must not", hash)
		}
		c, err := provisioning.NewClient(b.Config())
		if err != nil {
			t.Fatal(err)
		}
		list, err := c.List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != 1 {
			t.Fatalf("requests %+v, %v", list, err)
		}
		r := &list.Items[0]
		nodes, err := r.Places(0, 1)
		if err != nil || len(nodes) != 1 || !hash && nodes[0].Node != "node-a" {
			t.Errorf("hashed %t: places %+v, %v", hash, nodes, err)
		}
		p, err := r.Pod(0)
		if err != nil || len(p.Spec.Containers) != 1 || p.Spec.Containers[0].Resources.Requests.Cpu().Value() != 4 ||
			p.Annotations["tenon.sh/numa"] != "x" || len(p.Annotations) != 1 {
			t.Errorf("hashed %t: pod %+v, %v", hash, p, err)
		}
		devices, err := r.Devices()
		if err != nil || len(devices) != 1 || devices[0].Node != nodes[0].Node || devices[0].Devices[0] != "gpu-0" {
			t.Errorf("hashed %t: devices %+v, %v", hash, devices, err)
		}
		core, err := objects.NewCore(b.Config())
		if err != nil {
			t.Fatal(err)
		}
		pods, err := core.Pods.In(r.Namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil || len(pods.Items) == 0 {
			t.Fatalf("pods: %v", err)
		}
		one := &pods.Items[0]
		if apipod.Request(one) != r.Namespace+"/"+r.Name || r.Owner() != apipod.Owner(one) {
			t.Errorf("hashed %t: request %s of owner %q is used up by pods of %q with %v", hash, r.Name, r.Owner(),
				apipod.Owner(one), one.Annotations)
		}
	}
}

func TestABundleKnowsWhoMayDoWhat(t *testing.T) {
	b, _ := collected(t, false)
	group, err := objects.NewGroup(b.Config(), authorizationv1.SchemeGroupVersion, authorizationv1.AddToScheme)
	if err != nil {
		t.Fatal(err)
	}
	for verb, want := range map[string]bool{"watch": true, "delete": false} {
		var got authorizationv1.SubjectAccessReview
		ask := &authorizationv1.SubjectAccessReview{Spec: review(verb)}
		err := group.Create(t.Context(), "subjectaccessreviews", ask, &got)
		if err != nil || got.Status.Allowed != want {
			t.Errorf("%s: %v, %v; want %v", verb, got.Status.Allowed, err, want)
		}
	}
}

// An archive that unpacks to more than any bundle is not unpacked.
func TestArchivesThatAreTooLarge(t *testing.T) {
	var file bytes.Buffer
	zip := gzip.NewWriter(&file)
	head := &tar.Header{Name: "logs/x", Size: 600 << 20, Mode: 0o600}
	if err := tar.NewWriter(zip).WriteHeader(head); err != nil {
		t.Fatal(err)
	}
	if err := zip.Flush(); err != nil {
		t.Fatal(err)
	}
	if _, err := bundle.Read(&file); err == nil || !strings.Contains(err.Error(), "larger than any") {
		t.Errorf("a file of %d bytes: %v", head.Size, err)
	}
}

func FuzzRead(f *testing.F) {
	b := bundle.Bundle{About: bundle.About{Kind: "Bundle"}}
	var file bytes.Buffer
	if err := b.Write(&file); err != nil {
		f.Fatal(err)
	}
	f.Add(file.Bytes())
	f.Add([]byte("not an archive"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if b, err := bundle.Read(bytes.NewReader(data)); err == nil && b.Kind != "Bundle" {
			t.Errorf("read %+v", b.About)
		}
	})
}
