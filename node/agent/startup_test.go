package agent

import (
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/node/kubelet"
)

// A kubelet that has just started lists no pods for a while. Their holdings stay published.
func TestKubeletThatStartsListsNoPods(t *testing.T) {
	for _, restarted := range []bool{false, true} { // the agent, too
		inWorld(t, func(t *testing.T, w *world) {
			stop := w.start(w.config(logr.Discard()))
			w.run("p", "5")
			pass(time.Second)
			w.want("before", "ns/p=5")
			w.service.SetPods()
			if restarted {
				stop()
				w.agents = nil
				w.start(w.config(logr.Discard()))
			}
			for _, a := range w.agents {
				a.triggers.everything() // as the watch of the socket does
			}
			pass(5 * time.Second)
			w.want("while it starts", "ns/p=5")
			w.service.SetPods(listed("p"))
			pass(time.Second)
			w.want("when it has taken the pod up", "ns/p=5")
		})
	}
}

// A starting kubelet admits its pods one by one. All of them are published, though no file changes.
func TestKubeletAdmitsPodsOneByOne(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		for _, name := range []string{"p", "q"} {
			w.api.addPod(t, w.pod(name, 1))
		}
		w.cpus(`{"uid-p":{"main":"5"},"uid-q":{"main":"6"}}`)
		w.service.SetPods(listed("p"))
		w.start(w.config(logr.Discard()))
		pass(time.Second)
		w.service.SetPods(listed("p"), listed("q"))
		pass(time.Second)
		w.want("when both are taken up", "ns/p=5 ns/q=6")
	})
}

// What a starting kubelet holds for pods that it has not listed yet is not published as free: it would refuse other
// pods there.
func TestNoPodIsMissedWhileAKubeletStarts(t *testing.T) {
	for _, restarted := range []bool{false, true} { // the agent, too
		inWorld(t, func(t *testing.T, w *world) {
			for _, name := range []string{"p", "q"} {
				w.api.addPod(t, w.pod(name, 1))
			}
			w.cpus(`{"uid-p":{"main":"5"},"uid-q":{"main":"6"}}`)
			w.service.SetPods(listed("p"), listed("q"))
			stop := w.start(w.config(logr.Discard()))
			pass(time.Second)
			w.want("before", "ns/p=5 ns/q=6")
			w.service.SetPods()
			w.agents[0].triggers.everything() // as the watch of the socket does
			pass(time.Second)
			w.service.SetPods(listed("p"))
			if restarted {
				stop()
				w.agents = nil
				w.start(w.config(logr.Discard()))
			}
			w.agents[0].triggers.everything()
			pass(time.Second)
			w.want("when one is taken up", "ns/p=5 ns/q=6")
			w.service.SetPods(listed("p"), listed("q"))
			pass(time.Second)
			w.want("when both are taken up", "ns/p=5 ns/q=6")
			w.cpus(`{"uid-p":{"main":"5"}}`)
			w.service.SetPods(listed("p"))
			w.touched()
			pass(time.Second)
			w.want("when one has ended", "ns/p=5")
		})
	}
}

// A pod that has ended, without a status that shows it, delays layouts for no longer than a start takes.
func TestPodThatIsNeverListed(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start(w.config(logr.Discard()))
		w.run("p", "5")
		pass(time.Second)
		w.service.SetPods()
		w.touched()
		pass(30 * time.Second)
		w.want("at last", "")
		ended := w.pod("p", 1)
		ended.Status.Phase = v1.PodSucceeded
		w.api.changePod(t, ended)
		pass(time.Second)
		w.want("after it ended", "")
	})
}

// An agent that starts after a CPU went offline reads the kubelet's machine from its layout, until the kubelet has
// started again.
func TestAgentThatStartsAfterTheMachineChanged(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		want := func(what, cpus string, changed bool) {
			t.Helper()
			pass(time.Second)
			l, err := w.layout().Core()
			if err != nil {
				t.Fatal(err)
			}
			said := strings.Contains(w.codes(), "machine-changed")
			if got := l.Machine.CPUs().String(); got != cpus || said != changed {
				t.Errorf("%s: CPUs %s, reason %t; want %s, %t", what, got, said, cpus, changed)
			}
		}
		m, err := topo.ParseMachine("numa 0 cpus 0-3 memory 8Gi\nnuma 1 cpus 4-6 memory 8Gi")
		if err != nil {
			t.Fatal(err)
		}
		const socket = "pod-resources/kubelet.sock"
		w.write(socket, "")
		stop := w.start(w.config(logr.Discard()))
		want("before", "0-7", false)
		for range 2 {
			stop()
			w.agents = nil
			cfg := w.config(logr.Discard())
			cfg.Machine = described{m}
			stop = w.start(cfg)
			want("after a start of the agent", "0-7", true)
		}
		w.write(socket, "")
		w.write(kubelet.CPUStateFile, `{"policyName":"static","defaultCpuSet":"0-6","entries":{}}`)
		w.agents[0].triggers.everything() // as the watch of the socket does
		want("after a start of the kubelet", "0-6", false)
	})
}
