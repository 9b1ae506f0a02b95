package console

import (
	"context"
	"net/http"
	"slices"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/api/v1alpha1"
	"github.com/tenon-numa/tenon/cluster/live"
)

// affinity answers with what the agent of a node measured between pods; the answer is empty if the console reads no
// NodeAffinity. The user must be allowed to read the node, and who.Affinity checks the right to read its NodeAffinity.
// The answer lists only pods that the user may read, but its totals are of all pods.
func (h *Handler) affinity(w http.ResponseWriter, q *request) error {
	name := q.values.Get("node")
	if _, ok := q.who.View.State().Node(name); !ok {
		return fail(http.StatusNotFound, "node", "there is no node "+name+", or you may not read it")
	}
	doc := document.AffinityOf(nil)
	if q.who.Affinity != nil {
		ctx, cancel := context.WithTimeout(q.Context(), maxUse)
		defer cancel()
		var err error
		if doc, err = q.who.Affinity(ctx, name); err != nil {
			return err
		}
	}
	may := map[string]bool{}
	for _, p := range q.who.View.Pods(func(p live.Pod) bool { return p.Node == name }) {
		may[p.ID.Namespace+"/"+p.ID.Name] = true
	}
	for i := range doc.Nodes {
		n := &doc.Nodes[i]
		n.Pods = slices.DeleteFunc(n.Pods, func(p document.AffinityPod) bool { return !may[p.Namespace+"/"+p.Name] })
		n.Traffic = slices.DeleteFunc(n.Traffic, func(t v1alpha1.AffinityTraffic) bool { return !may[t.A] || !may[t.B] })
	}
	return answer(w, q.Request, doc)
}
