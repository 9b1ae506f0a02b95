package kube

import (
	"fmt"

	v1 "k8s.io/api/core/v1"

	"github.com/tenon-numa/tenon/api/pod/quantity"
	"github.com/tenon-numa/tenon/core/whatif"
)

// Needs returns the amounts that a pod requests of a node as a whole, overhead included, and one of the resource
// "pods". The error is the one of [Amounts]; the amounts are complete even then.
func Needs(p *v1.Pod) (whatif.Amounts, error) {
	out, err := Amounts(Requests(p))
	out["pods"] = 1
	return out, err
}

// Amounts translates a list of resources: CPUs in thousandths, all others in their units. A negative amount counts as
// 0. An amount above [whatif.MaxAmount] counts as MaxAmount, and the error names one such amount. The result is
// complete in that case, too.
func Amounts(list v1.ResourceList) (out whatif.Amounts, err error) {
	out = whatif.Amounts{}
	for name, q := range list {
		n := int64(whatif.MaxAmount)
		switch maxCPUs := int64(whatif.MaxAmount / 1000); {
		case q.Sign() < 0:
			n = 0
		case q.IsZero():
			n = 0
		case name == v1.ResourceCPU && quantity.Within(q, maxCPUs):
			n = q.MilliValue()
		case name != v1.ResourceCPU && quantity.Within(q, n):
			n = q.Value()
		default:
			err = fmt.Errorf("%s: %s is more than any node has", name, quantity.Text(q))
		}
		out[string(name)] = n
	}
	return out, err
}
