package agent

import (
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// A described machine that contradicts Node.status.capacity is not published, and the log names each difference. Once
// the Node agrees, it is published.
func TestADescribedMachineMustFitTheNode(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		capacity := func(cpus, memory string) {
			w.api.changeNode(w.name, func(n *v1.Node) {
				n.Status.Capacity = v1.ResourceList{v1.ResourceCPU: resource.MustParse(cpus),
					v1.ResourceMemory: resource.MustParse(memory)}
			})
		}
		capacity("12", "32Gi")
		log := &journal{}
		cfg := w.config(log.logger())
		cfg.CheckCapacity = true
		w.start(cfg)
		pass(time.Second)
		if w.layout() != nil || log.count("8 CPUs, the node has 12") == 0 ||
			log.count("16Gi memory, the node has 32Gi") == 0 {
			t.Errorf("layout %v, logged %q", w.layout(), log.lines)
		}
		capacity("8", "15900Mi") // the kernel keeps a part of the memory for itself
		pass(time.Second)
		if w.layout() == nil {
			t.Errorf("nothing is published, logged %q", log.lines)
		}
	})
}

// At the start and after a change, the log names what the kubelet does not align and the setting that would.
func TestTheLogNamesWhatIsNotAligned(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world) {
		log := &journal{}
		w.start(w.config(log.logger()))
		pass(time.Minute)
		const remedy = `"remedy"="set memoryManagerPolicy: Static and reservedMemory"`
		if log.count("read the kubelet's policies") != 1 || log.count(remedy) != 1 {
			t.Errorf("logged %q", log.lines)
		}
		w.write("config.yaml", configKind+"topologyManagerPolicy: none\n")
		w.agents[0].triggers.everything()
		pass(time.Second)
		for _, want := range []string{`"topologyManagerPolicy"="none"`, `"cpuManagerPolicy"="none"`,
			"set topologyManagerPolicy: single-numa-node", "set cpuManagerPolicy: static"} {
			if log.count(want) != 1 {
				t.Errorf("%d lines with %s: %s", log.count(want), want, strings.Join(log.lines, "\n"))
			}
		}
	})
}
