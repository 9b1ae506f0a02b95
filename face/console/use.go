package console

import (
	"context"
	"net/http"
	"slices"

	"github.com/tenon-numa/tenon/api/document"
	"github.com/tenon-numa/tenon/cluster/live"
)

// use answers with what a node uses. The user must be allowed to read the node. The last sample has the containers of
// all pods that the user may read. The others have only the containers of the requested pod, if the user may read it.
func (h *Handler) use(w http.ResponseWriter, q *request) error {
	name, pod := q.values.Get("node"), q.values.Get("pod")
	if _, ok := q.who.View.State().Node(name); !ok {
		return fail(http.StatusNotFound, "node", "there is no node "+name+", or you may not read it")
	}
	doc := document.NodeUse{Kind: "NodeUse", Node: name, Problem: "nothing here measures the use of nodes"}
	if q.who.Use != nil {
		ctx, cancel := context.WithTimeout(q.Context(), maxUse)
		defer cancel()
		doc = q.who.Use(ctx, name, pod)
	}
	may := map[string]bool{}
	for _, p := range q.who.View.Pods(func(p live.Pod) bool { return p.Node == name }) {
		may[p.ID.Namespace+"/"+p.ID.Name] = true
	}
	doc.Samples = append([]document.UseSample{}, doc.Samples...) // other answers use the same samples
	for i := range doc.Samples {
		s := &doc.Samples[i]
		all := append([]document.ContainerUse{}, s.Containers...)
		s.Containers = slices.DeleteFunc(all, func(c document.ContainerUse) bool {
			owner, last := c.Namespace+"/"+c.Pod, i == len(doc.Samples)-1
			return !may[owner] || !last && owner != pod
		})
	}
	return answer(w, q.Request, doc)
}
