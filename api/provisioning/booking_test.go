package provisioning_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/tenon-numa/tenon/api/provisioning"
)

// named returns a pod that has its turn before a request.
func named(namespace, name, uid string) provisioning.First {
	return provisioning.First{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}, UID: types.UID(uid)}
}

// What is written of pods that have their turn first is read again, and fits the definition of ProvisioningRequests.
func TestPodsThatHaveTheirTurnFirst(t *testing.T) {
	var pods []provisioning.First
	for i := range provisioning.MaxFirst {
		pods = append(pods, named("ml", fmt.Sprintf("pod-%02d", i), fmt.Sprint("uid-", i)))
	}
	shuffled := append(slices.Clone(pods[7:]), pods[:7]...)
	parameters := map[string]string{provisioning.HoldSeconds: "600"}
	if err := provisioning.SetFirst(parameters, shuffled); err != nil {
		t.Fatal(err)
	}
	r := provisioning.Request{Spec: provisioning.Spec{Parameters: parameters}}
	got, err := r.First()
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(got, func(a, b provisioning.First) int { return strings.Compare(a.Name, b.Name) })
	if !slices.Equal(got, pods) || len(parameters) > 100 {
		t.Errorf("of %d pods, %d are read: %v", len(pods), len(got), got)
	}
	if err := provisioning.SetFirst(parameters, append(pods, pods[0])); err == nil {
		t.Error("more pods are written than may be read")
	}
	for n, fits := range map[int]bool{253 - len("ml//uid"): true, 254: false} {
		p := named("ml", strings.Repeat("n", n), "uid")
		if err := provisioning.SetFirst(map[string]string{}, []provisioning.First{p}); (err == nil) != fits {
			t.Errorf("a name of %d bytes: %v", n, err)
		}
	}
}

// A parameter that names no pod is an error, and not a request that waits for nothing.
func TestParametersThatNameNoPod(t *testing.T) {
	for _, text := range []string{"", "name", "ml/name", "ml/name/", "/name/uid", "ml//uid", "ml/name/uid/more"} {
		r := provisioning.Request{Spec: provisioning.Spec{Parameters: map[string]string{provisioning.After + "x": text}}}
		if got, err := r.First(); err == nil || !strings.Contains(err.Error(), provisioning.After+"x") {
			t.Errorf("%q is read as %v, %v", text, got, err)
		}
	}
	parameters := map[string]string{}
	for i := range provisioning.MaxFirst + 1 {
		parameters[fmt.Sprint(provisioning.After, i)] = "ml/name/uid"
	}
	r := provisioning.Request{Spec: provisioning.Spec{Parameters: parameters}}
	if got, err := r.First(); err == nil {
		t.Errorf("%d pods are read", len(got))
	}
}
