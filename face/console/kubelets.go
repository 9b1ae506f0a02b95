package console

import (
	"context"
	"net/http"
	"strings"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/core/whatif"
	"github.com/tenon-numa/tenon/face/cli"
)

// Kubelets plans changes of kubelets' configuration and carries them out, with the rights of an identity.
type Kubelets interface {
	// Plan computes the effects of a change. It changes nothing.
	Plan(ctx context.Context, change whatif.Variation) (document.KubeletPlan, error)
	// Apply returns an applier of plans whose pods run in the namespace, and the name of the namespace. "" stands for
	// the default namespace of such pods.
	Apply(namespace string, o cli.KubeletApplyOptions) (cli.KubeletApplier, string, error)
}

// planKubelets answers with the effects of a change of kubelets' configuration.
func (h *Handler) planKubelets(w http.ResponseWriter, q *request) error {
	if q.who.Kubelets == nil {
		return fail(http.StatusNotFound, "path", "nothing plans changes of kubelets here")
	}
	var body document.KubeletChange
	if err := decode(q.body, &body); err != nil {
		return err
	}
	v, err := variation(body)
	if err != nil {
		return err
	}
	doc, err := h.bounded(q, func(ctx context.Context) (any, error) { return q.who.Kubelets.Plan(ctx, v) })
	if err != nil {
		return err
	}
	return answer(w, q.Request, doc)
}

// variation returns a change in the form from which plans are computed. It first checks each field by itself, so that
// an error names the field.
func variation(c document.KubeletChange) (whatif.Variation, error) {
	if err := checkSelector(c.Selector); err != nil {
		return whatif.Variation{}, fail(http.StatusUnprocessableEntity, "selector", err.Error())
	}
	if len(c.Options) > maxRepeated {
		return whatif.Variation{}, fail(http.StatusUnprocessableEntity, "options", "are too many")
	}
	change := cli.KubeletChange{Selector: c.Selector, Policy: c.TopologyManagerPolicy, Options: c.Options,
		CPUManager: c.CPUManagerPolicy, MemoryManager: c.MemoryManagerPolicy, ReservedCPUs: c.ReservedCPUs,
		ReservedMemory: c.ReservedMemory}
	if change.Empty() {
		return whatif.Variation{}, fail(http.StatusUnprocessableEntity, "body", "says nothing that changes")
	}
	for _, one := range []struct {
		field, flag string
		cli.KubeletChange
	}{
		{"topologyManagerPolicy", "policy", cli.KubeletChange{Policy: change.Policy}},
		{"options", "option", cli.KubeletChange{Options: change.Options}},
		{"cpuManagerPolicy", "cpu-manager-policy", cli.KubeletChange{CPUManager: change.CPUManager}},
		{"memoryManagerPolicy", "memory-manager-policy", cli.KubeletChange{MemoryManager: change.MemoryManager}},
		{"reservedCPUs", "reserved-cpus", cli.KubeletChange{ReservedCPUs: change.ReservedCPUs}},
		{"reservedMemory", "reserved-memory", cli.KubeletChange{ReservedMemory: change.ReservedMemory}},
	} {
		if one.Empty() {
			continue
		}
		if _, err := one.Variation(); err != nil {
			detail := strings.TrimLeft(strings.TrimPrefix(err.Error(), "--"+one.flag), ": ")
			return whatif.Variation{}, fail(http.StatusUnprocessableEntity, one.field, detail)
		}
	}
	return change.Variation()
}
