package agent

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/api/v1alpha1"
)

// Whatever an attacker with the node's token has written, readers accept the agent's layouts again after a bounded
// number of writes: its sequence stays within the bound, and it does not stand by for a claim for the future.
func TestAgentRecoversFromForgedLayouts(t *testing.T) {
	ages := metav1.NewMicroTime(time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC))
	for _, restart := range []bool{false, true} {
		for _, sequence := range []int64{v1alpha1.MaxSequence, lastSequence, lastSequence + 1, 1<<63 - 1} {
			t.Run(fmt.Sprintf("sequence %d, restart %v", sequence, restart), func(t *testing.T) {
				inWorld(t, func(t *testing.T, w *world) {
					stop := w.start(w.config(logr.Discard()))
					w.run("p", "5")
					pass(time.Second)
					if restart {
						stop()
						w.agents = nil
					}
					forged := *w.layout()
					forged.Sequence, forged.Agent, forged.Holdings = sequence, v1alpha1.Agent{ID: "forger", Since: ages}, nil
					w.api.set(func() { w.api.store(&forged) })
					before := w.writes()
					if restart {
						w.start(w.config(logr.Discard()))
					}
					pass(time.Second)
					w.want("after a forged layout", "ns/p=5")
					l := w.layout()
					if _, err := l.Core(); err != nil || l.Agent.ID == "forger" || l.Sequence >= sequence && sequence > lastSequence {
						t.Errorf("sequence %d of agent %s: %v", l.Sequence, l.Agent.ID, err)
					}
					pass(10 * time.Minute)
					w.run("q", "6")
					pass(time.Second)
					w.want("later", "ns/q=6")
					if _, err := w.layout().Core(); err != nil {
						t.Error(err)
					}
					if n := w.writes() - before; n > 4 {
						t.Errorf("%d writes", n)
					}
				})
			})
		}
	}
}
