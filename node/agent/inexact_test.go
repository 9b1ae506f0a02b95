package agent

import (
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/node/kubelet/kubelettest"
)

// codes returns the codes of the reasons that the published layout has.
func (w *world) codes() string {
	w.t.Helper()
	l := w.layout()
	if l == nil {
		w.t.Fatal("nothing is published")
	}
	var out []string
	for _, r := range l.Inexact {
		out = append(out, r.Code)
	}
	return strings.Join(out, " ")
}

const fromFiles = string(state.RulesFromFiles)

// The layout names the version of its kubelet, and why the kubelet may differ from predictions.
func TestLayoutSaysWhyItIsInexact(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start(w.config(logr.Discard()))
		if got := w.codes(); got != fromFiles {
			t.Errorf("reasons are %q, want %q", got, fromFiles)
		}
		if got := w.layout().Kubelet.Version; got != "v"+place.DefaultRelease.String()+".3" {
			t.Errorf("version is %q", got)
		}
		w.write("config.yaml", `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
topologyManagerPolicy: single-numa-node
cpuManagerPolicy: static
kubeReserved: {cpu: "1"}
featureGates: {KubeletPodResourcesListUseActivePods: false, CPUManagerPolicyAlphaOptions: true, SomethingElse: true}
`)
		w.api.changeNode(w.name, func(n *v1.Node) { n.Status.NodeInfo.KubeletVersion = "v1.38.0" })
		pass(DefaultResync + time.Second)
		if got, want := w.codes(), "unknown-kubelet-version unmodelled-feature-gate "+fromFiles; got != want {
			t.Errorf("reasons are %q, want %q", got, want)
		}
		k := w.layout().Kubelet
		if k.Version != "v1.38.0" || len(k.FeatureGates) != 2 || k.FeatureGates[1].Enabled ||
			k.FeatureGates[1].Name != "KubeletPodResourcesListUseActivePods" {
			t.Errorf("kubelet is %+v", k)
		}
		w.api.changeNode(w.name, func(n *v1.Node) { n.Status.NodeInfo.KubeletVersion = "v0.0.0-master+$Format:%H$" })
		pass(time.Second)
		if l := w.layout(); l.Kubelet.Version != "" || !strings.Contains(l.Inexact[0].Message, "Format") {
			t.Errorf("kubelet is %+v, reasons are %+v", l.Kubelet, l.Inexact)
		}
	})
}

// The kubelet does not list unhealthy devices; the Node's capacity still counts them.
func TestLayoutHasUnhealthyDevices(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		count := func(n string) {
			w.api.changeNode(w.name, func(node *v1.Node) {
				node.Status.Capacity = v1.ResourceList{"x.io/gpu": resource.MustParse(n), "cpu": resource.MustParse("8")}
			})
			pass(time.Second)
		}
		count("2")
		w.start(w.config(logr.Discard()))
		if got := w.codes(); got != fromFiles {
			t.Errorf("reasons are %q, want %q", got, fromFiles)
		}
		w.service.SetDevices(kubelettest.Device("x.io/gpu", "g0", 0))
		w.touched()
		pass(time.Second)
		if got, want := w.codes(), fromFiles+" unhealthy-devices"; got != want {
			t.Errorf("reasons are %q, want %q", got, want)
		}
		sick := ""
		for _, g := range w.layout().Machine.Devices[0].Groups {
			if g.Unhealthy {
				sick += strings.Join(g.IDs, ",") + "@" + string(g.NUMAs)
			}
		}
		if sick != "g1@1" {
			t.Errorf("unhealthy devices are %q, want g1 on NUMA node 1", sick)
		}
		count("1") // the plugin has it no longer
		if got := w.codes(); got != fromFiles {
			t.Errorf("reasons are %q, want %q", got, fromFiles)
		}
		count("3") // two that were never listed
		if got, want := w.codes(), fromFiles+" unhealthy-devices"; got != want {
			t.Errorf("reasons are %q, want %q", got, want)
		}
	})
}
