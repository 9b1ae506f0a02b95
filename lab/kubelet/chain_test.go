package kubelet_test

import (
	"slices"

	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/place/scenario"
)

// longest is how many predictions follow each other before the node's report is read again.
const longest = 15

// chain predicts from earlier predictions, as a scheduler does between two reports of a node. If the kubelet chooses at
// random, the chain continues with the kubelet's choice.
type chain struct {
	node   *scenario.Node
	length int
	broken bool // the node's report has to be read before the chain can continue
}

// resync reads the node's report.
func (t *trial) resync() {
	n := *t.node
	n.Pods = slices.Clone(n.Pods)
	t.chain = chain{node: &n}
}

// usage returns the usage that follows from the predictions; ok is false if they do not determine it. before is what
// the managers had recorded before they were asked.
func (c *chain) usage(t *trial, before *place.Usage) (u *place.Usage, ok bool) {
	if c.broken || c.length >= longest {
		t.resync()
	}
	real, err := t.usage()
	if err != nil || c.mingled(before) || c.mingled(real) || foretell(real.RestartHazards(), place.MemoryState) {
		c.broken = true
		return nil, false
	}
	c.length++
	return c.node.Usage(), true
}

// mingled reports whether memory of several NUMA nodes is held together: then holdings do not show what each of them
// has free.
func (c *chain) mingled(u *place.Usage) bool {
	_, grouped := u.MemoryGroups()
	return grouped != 0
}

// admitted predicts a pod that the managers have admitted.
func (c *chain) admitted(t *trial, st scenario.Step, before *place.Usage, seen []place.Holding, sure bool) error {
	u, ok := c.usage(t, before)
	if !ok {
		return nil
	}
	v := t.predict(u, &st.Pod)
	if !sure {
		c.broken = true
		return nil
	}
	if !v.Fits() {
		return differs(aboutChain, "pod %s: the managers admit it, after %d predictions place says %q %v",
			st.Name, c.length, v.Refusal, texts(v.Reasons))
	}
	if err := t.same(st.Name, &st.Pod, v, seen, len(st.Pod.Containers)); err != nil {
		return differs(aboutChain, "after %d predictions: %v", c.length, err)
	}
	t.count.chained = max(t.count.chained, c.length)
	if v.Exact() {
		c.node.Hold(st.Name, v.Holdings)
	} else {
		c.node.Hold(st.Name, seen)
	}
	return nil
}

// refused predicts a pod that the managers have refused.
func (c *chain) refused(t *trial, st scenario.Step, before *place.Usage, sure bool) error {
	u, ok := c.usage(t, before)
	if !ok || !sure {
		return nil
	}
	if v := t.predict(u, &st.Pod); v.Fits() && !v.Chance {
		return differs(aboutChain, "pod %s: the managers refuse it, after %d predictions place says that it fits",
			st.Name, c.length)
	}
	return nil
}

// follow does a step other than an admission.
func (c *chain) follow(t *trial, st scenario.Step) {
	switch st.Do {
	case scenario.Restart:
		c.broken = true
	case scenario.Start, scenario.Remove, scenario.End:
		if u, err := t.usage(); err != nil || c.mingled(u) {
			c.broken = true
		}
		c.node.Do(st)
	default:
		c.node.Do(st)
	}
}
