package agent

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/api/v1alpha1"
)

const standingBy = "standing by"

// Of two agents on one node the later one writes; the other logs once that it stands by. Neither writes more often.
func TestTwoAgentsOnOneNode(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var first, second journal
		w.start(w.config(first.logger()))
		w.start(w.config(second.logger()))
		if w.writes() != 1 {
			t.Errorf("%d writes before anything changed", w.writes())
		}
		w.run("p", "5")
		pass(time.Second)
		w.want("after a change", "ns/p=5")
		settled := w.writes()
		// A new pod makes four events, and until the claim of one agent stands, each agent may write after each of them.
		if settled > 1+2*4 {
			t.Errorf("%d writes for one pod", settled)
		}
		pass(10 * time.Minute)
		if n := w.writes() - settled; n != 0 {
			t.Errorf("%d writes while nothing happens", n)
		}
		w.cpus(`{"uid-p":{"main":"6"}}`)
		w.touched()
		pass(time.Second)
		w.want("after another change", "ns/p=6")
		if n := w.writes() - settled; n != 1 {
			t.Errorf("%d writes for another change, want 1", n)
		}
		if first.count(standingBy) != 1 || second.count(standingBy) != 0 {
			t.Errorf("the first logged %q, the second %q", first.lines, second.lines)
		}
	})
}

// An agent that stands by takes over when the layout stays wrong: the other agent is gone.
func TestAgentThatStandsByTakesOver(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var log journal
		w.start(w.config(log.logger()))
		stop := w.start(w.config(log.logger()))
		w.run("p", "5")
		pass(time.Second)
		stop()
		w.agents = w.agents[:1]
		w.cpus(`{"uid-p":{"main":"6"}}`)
		w.touched()
		pass(firstPatience / 2)
		w.want("at first", "ns/p=5")
		pass(firstPatience)
		w.want("later", "ns/p=6")
		if log.count(standingBy) != 1 || log.count("publishing again") != 1 {
			t.Errorf("logged %q", log.lines)
		}
	})
}

// Agents of two machines with one name take over from each other less and less often.
func TestTwoMachinesOfOneName(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		var log journal
		other := &world{node: emptyNode(t, "node-a"), api: w.api, server: w.server}
		other.serve()
		other.write("config.yaml", "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n")
		other.write("cpu_manager_state", `{"policyName":"none","defaultCpuSet":""}`)
		w.start(w.config(log.logger()))
		other.start(other.config(log.logger()))
		before := w.writes()
		pass(2 * time.Hour)
		if n := w.writes() - before; n > 60 {
			t.Errorf("%d writes in 2 hours", n)
		}
		if log.count(standingBy) == 0 {
			t.Errorf("logged %q", log.lines)
		}
	})
}

// A claim that is repeated, as by somebody with a stolen token, makes an agent stand by for ten minutes at most.
func TestALieStandsForTenMinutesAtMost(t *testing.T) {
	c, now := newClaim(), time.Now()
	var waits []time.Duration
	for range 8 {
		c.read(v1alpha1.Agent{ID: "forger", Since: metav1.NewMicroTime(now.Add(time.Second))}, true, now)
		begun := now
		for c.mayWrite(now, false) != nil {
			now = now.Add(time.Second)
		}
		waits = append(waits, now.Sub(begun))
		now = now.Add(time.Second)
	}
	if waits[0] != time.Minute || waits[7] != 10*time.Minute {
		t.Errorf("lies stand for %v, want a minute at first, and ten in the end", waits)
	}
}

func TestClaimsAreOrdered(t *testing.T) {
	at := func(s int64, id string) v1alpha1.Agent {
		return v1alpha1.Agent{ID: id, Since: metav1.NewMicroTime(time.Unix(s, 0))}
	}
	for _, c := range []struct {
		a, b v1alpha1.Agent
		want bool
	}{
		{at(1, "x"), at(2, "a"), true}, {at(2, "a"), at(1, "x"), false},
		{at(1, "a"), at(1, "b"), true}, {at(1, "a"), at(1, "a"), false},
	} {
		if got := c.a.Before(c.b); got != c.want {
			t.Errorf("%+v before %+v is %v", c.a, c.b, got)
		}
	}
}
