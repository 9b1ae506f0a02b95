package stage

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
)

// Unequal returns texts about the containers of a pod whose limits for CPUs or memory are missing or differ from their
// requests. A pod without such containers is Guaranteed.
func Unequal(p *v1.Pod) (out []string) {
	for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			c := &list[i]
			var without, differ []string
			for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
				limit, limited := c.Resources.Limits[name]
				request, requested := c.Resources.Requests[name]
				switch {
				case !limited || limit.IsZero():
					without = append(without, string(name))
				case requested && request.Cmp(limit) != 0:
					differ = append(differ, string(name))
				}
			}
			if len(without) > 0 {
				out = append(out, fmt.Sprintf("container %q has no limit for %s", c.Name, strings.Join(without, " and ")))
			}
			if len(differ) > 0 {
				out = append(out, fmt.Sprintf("container %q requests less %s than its limit", c.Name,
					strings.Join(differ, " and ")))
			}
		}
	}
	return out
}
