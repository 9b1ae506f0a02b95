package agent

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/node/kubelet"
)

// want fails the test if there is no layout, or its pods have other holdings.
func (w *world) want(what, holdings string) {
	w.t.Helper()
	if l := w.layout(); l == nil || held(l) != holdings {
		w.t.Errorf("%s: layout %+v, want holdings %q", what, l, holdings)
	}
}

func TestBurstIsWrittenAtThePace(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start(w.config(logr.Discard()))
		before := w.writes()
		w.api.addPod(t, w.pod("p", 1))
		w.service.SetPods(listed("p"))
		for i := range 100 {
			w.cpus(fmt.Sprintf(`{"uid-p":{"main":"%d"}}`, 1+i%7))
			w.touched()
			pass(10 * time.Millisecond)
		}
		pass(time.Second)
		if n := w.writes() - before; n < 4 || n > 6 {
			t.Errorf("%d writes for a second of changes", n)
		}
		w.want("after the burst", "ns/p="+fmt.Sprint(1+99%7))
	})
}

func TestSocketGoneAndBack(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var log journal
		w.start(w.config(log.logger()))
		w.stop()
		w.run("p", "5")
		pass(time.Minute)
		if w.writes() != 1 || log.count("cannot publish") != 1 {
			t.Errorf("without the kubelet: %d writes, logged %q", w.writes(), log.lines)
		}
		w.serve()
		w.agents[0].triggers.everything() // as the watch of the socket does
		pass(3 * time.Second)
		w.want("after the kubelet is back", "ns/p=5")
		if log.count("publishing again") != 1 {
			t.Errorf("logged %q", log.lines)
		}
	})
}

// A kubelet that starts with another policy writes its state file again, and that triggers the agent to read
// the configuration.
func TestKubeletRestartedWithAnotherPolicy(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start(w.config(logr.Discard()))
		w.write("config.yaml", configKind+"topologyManagerPolicy: restricted\n")
		w.write(kubelet.CPUStateFile, `{"policyName":"none","defaultCpuSet":""}`)
		w.touched()
		pass(time.Second)
		if r := w.layout().Rules; r.TopologyManagerPolicy != "restricted" || r.CPUManagerPolicy != "none" ||
			r.From != v1alpha1.FromFiles {
			t.Errorf("rules are %+v", r)
		}
	})
}

// Rules that cannot be read again stay, holdings are still published, and the log reports it.
func TestConfigurationThatCannotBeReadAnyMore(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var log journal
		w.start(w.config(log.logger()))
		w.write("config.yaml", configKind+"topologyManagerPolicy: of-tomorrow\n")
		w.agents[0].triggers.everything()
		pass(time.Second)
		w.run("p", "5")
		pass(time.Second)
		w.want("with rules as they were", "ns/p=5")
		if r := w.layout().Rules; r.TopologyManagerPolicy != "single-numa-node" || log.count("of-tomorrow") != 1 {
			t.Errorf("rules are %+v, logged %q", r, log.lines)
		}
	})
}

func TestNothingIsPublishedBeforeTheRulesAreKnown(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.write("config.yaml", "{")
		w.start(w.config(logr.Discard()))
		pass(time.Minute)
		if w.writes() != 0 {
			t.Errorf("%d writes", w.writes())
		}
		w.write("config.yaml", "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n")
		w.agents[0].triggers.everything()
		pass(time.Second)
		w.want("once they are known", "")
	})
}

func TestHalfWrittenStateFile(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start(w.config(logr.Discard()))
		w.run("p", "5")
		pass(time.Second)
		before := w.writes()
		w.write(kubelet.CPUStateFile, `{"policyName":"static","defaultCpuSet":"0-7","entries":{"uid-p":{"ma`)
		w.touched()
		pass(time.Second)
		w.want("while half of the file is there", "ns/p=5")
		w.cpus(`{"uid-p":{"main":"6"}}`)
		w.touched()
		pass(300 * time.Millisecond)
		w.want("when all of it is", "ns/p=6")
		if n := w.writes() - before; n != 1 {
			t.Errorf("%d writes", n)
		}
	})
}

// State files that keep contradicting themselves are accepted after a while, and then their changes at once.
func TestContradictionThatStaysIsAcceptedOnce(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		cfg := w.config(logr.Discard())
		rec := &recorder{wrote: map[string]int{}, failed: map[string]int{}}
		cfg.Recorder = rec
		w.start(cfg)
		w.api.addPod(t, w.pod("p", 1))
		w.service.SetPods(listed("p"))
		pass(time.Second)
		hold := func(shared, held string) { // of 8 CPUs, 6 and 7 are in no set
			w.write(kubelet.CPUStateFile, `{"policyName":"static","defaultCpuSet":"`+shared+
				`","entries":{"uid-p":{"main":"`+held+`"}}}`)
			w.touched()
		}
		hold("0-3", "4-5")
		pass(500 * time.Millisecond)
		w.want("at first", "")
		pass(3 * time.Second)
		w.want("after a while", "ns/p=4-5")
		reconciles := rec.reconciles.Load()
		hold("0-2,4", "3,5")
		pass(300 * time.Millisecond)
		w.want("from then on", "ns/p=3,5")
		if n := rec.reconciles.Load() - reconciles; n != 1 {
			t.Errorf("%d reconciles, want 1", n)
		}
	})
}

// While the API server is away the agent retries at growing pauses. When it is back, the latest state is written once.
func TestServerAwayForAMinute(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		cfg := w.config(logr.Discard())
		rec := &recorder{wrote: map[string]int{}, failed: map[string]int{}}
		cfg.Recorder = rec
		w.start(cfg)
		w.api.addPod(t, w.pod("p", 1))
		w.service.SetPods(listed("p"))
		pass(time.Second)
		writes, reconciles := w.writes(), rec.reconciles.Load()
		w.server.set(true)
		for i := range 6 {
			w.cpus(fmt.Sprintf(`{"uid-p":{"main":"%d"}}`, 1+i))
			w.touched()
			pass(10 * time.Second)
		}
		if n := rec.reconciles.Load() - reconciles; n > 40 {
			t.Errorf("%d reconciles in a minute without the server", n)
		}
		w.server.set(false)
		pass(lastRetry)
		w.want("after the server is back", "ns/p=6")
		pass(5 * time.Minute)
		if n := w.writes() - writes; n != 1 {
			t.Errorf("%d writes, want 1", n)
		}
	})
}

// A delayed write brings an old layout back, and the agent ends before it can correct that. The next agent must not
// continue from the old sequence: readers have received a higher one, and would ignore its layouts.
func TestSequenceAfterADelayedWriteOfAnEarlierAgent(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		stop := w.start(w.config(logr.Discard()))
		w.run("p", "5")
		pass(time.Second)
		late := *w.layout()
		w.run("q", "6")
		pass(time.Second)
		w.run("r", "7")
		pass(time.Second)
		known := w.layout().Sequence
		if known <= late.Sequence {
			t.Fatalf("sequence %d after %d", known, late.Sequence)
		}
		stop()
		w.api.mu.Lock()
		w.api.store(&late)
		w.api.mu.Unlock()
		w.start(w.config(logr.Discard()))
		pass(time.Second)
		w.want("after the new agent has written", "ns/r=7")
		if l := w.layout(); l.Sequence <= known {
			t.Errorf("sequence %d after %d", l.Sequence, known)
		}
	})
}

func TestDeletedLayoutIsWrittenAgainAtOnce(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start(w.config(logr.Discard()))
		w.run("p", "5")
		pass(time.Second)
		sequence := w.layout().Sequence
		w.api.deleteLayout("node-a")
		pass(300 * time.Millisecond)
		w.want("after it was deleted", "ns/p=5")
		if l := w.layout(); l != nil && l.Sequence <= sequence {
			t.Errorf("sequence %d after %d", l.Sequence, sequence)
		}
	})
}

func TestChangedLayoutIsWrittenAgainAtOnce(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		cfg := w.config(logr.Discard())
		rec := &recorder{wrote: map[string]int{}, failed: map[string]int{}}
		cfg.Recorder = rec
		w.start(cfg)
		w.run("p", "5")
		pass(time.Second)
		reconciles := rec.reconciles.Load()
		edited := *w.layout()
		edited.Holdings = nil
		w.api.mu.Lock()
		w.api.store(&edited)
		w.api.mu.Unlock()
		pass(300 * time.Millisecond)
		w.want("after somebody edited it", "ns/p=5")
		// The agent's own write triggers no reconcile.
		if n := rec.reconciles.Load() - reconciles; n != 1 {
			t.Errorf("%d reconciles, want 1", n)
		}
	})
}

func TestEndedPodsAreNotReported(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		w.start(w.config(logr.Discard()))
		w.run("p", "5")
		pass(time.Second)
		w.want("while it runs", "ns/p=5")
		ended := w.pod("p", 1)
		ended.Status.Phase = v1.PodFailed
		w.api.changePod(t, ended)
		pass(time.Second)
		w.want("after it ended", "")
	})
}
