// Package quantity reads untrusted Kubernetes quantities at a bounded cost.
//
// A quantity such as 1e9999999 is nine bytes long, and the API server accepts it. The methods of resource.Quantity
// expand it to ten million digits before they compare, add or round. Invariant: no function here does arithmetic on a
// quantity before an approximate comparison shows that it is small. The package does not interpret units.
package quantity

import (
	"math"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/tenon-numa/tenon/core/printable"
)

// small bounds the magnitude up to which quantities are compared and added exactly. It is far above 2^63, which no
// real amount exceeds, and small enough for exact arithmetic to be cheap.
const small = 1e30

// maxText bounds the text of a quantity in a message.
const maxText = 40

// Small reports whether comparing, adding and rounding q is cheap.
func Small(q resource.Quantity) bool {
	if q.IsZero() {
		// 0e9999999 is zero, and comparing it expands the other side. q is a copy, so AsDec changes nothing.
		return q.AsDec().Scale() == 0
	}
	// The parser rounds up to 1n, so quantities near zero have few digits.
	return math.Abs(q.AsApproximateFloat64()) < small
}

// Within reports whether q is in the range from 0 to high, both included.
func Within(q resource.Quantity, high int64) bool {
	return q.IsZero() || q.Sign() > 0 && Small(q) && q.CmpInt64(high) <= 0
}

// Text returns q as text of bounded length, for messages.
func Text(q resource.Quantity) string {
	switch {
	case q.IsZero():
		return "0"
	case Small(q):
		return printable.Clip(q.String(), maxText)
	}
	return "about " + strconv.FormatFloat(q.AsApproximateFloat64(), 'g', 3, 64)
}

// Clamp returns q if it is small, and otherwise math.MaxInt64 with the sign of q.
func Clamp(q resource.Quantity) resource.Quantity {
	switch {
	case q.IsZero():
		return *resource.NewQuantity(0, q.Format)
	case Small(q):
		return q
	case q.Sign() < 0:
		return *resource.NewQuantity(-math.MaxInt64, resource.DecimalSI)
	}
	return *resource.NewQuantity(math.MaxInt64, resource.DecimalSI)
}

// ClampList returns the list with every quantity clamped. If all are small, it returns the list itself.
func ClampList(list v1.ResourceList) v1.ResourceList {
	if smallList(list) {
		return list
	}
	out := make(v1.ResourceList, len(list))
	for name, q := range list {
		out[name] = Clamp(q)
	}
	return out
}

// ClampPod returns the pod with every quantity of its spec clamped. If all are small, it returns the pod itself. Sums
// over the containers of the result are cheap.
func ClampPod(pod *v1.Pod) *v1.Pod {
	ok := true
	eachList(pod, func(list *v1.ResourceList) { ok = ok && smallList(*list) })
	if ok {
		return pod
	}
	out := pod.DeepCopy()
	eachList(out, func(list *v1.ResourceList) { *list = ClampList(*list) })
	return out
}

func smallList(list v1.ResourceList) bool {
	for _, q := range list {
		if !Small(q) {
			return false
		}
	}
	return true
}

// eachList calls do for every list of quantities in a pod's spec.
func eachList(pod *v1.Pod, do func(*v1.ResourceList)) {
	requirements := func(r *v1.ResourceRequirements) {
		do(&r.Requests)
		do(&r.Limits)
	}
	for i := range pod.Spec.InitContainers {
		requirements(&pod.Spec.InitContainers[i].Resources)
	}
	for i := range pod.Spec.Containers {
		requirements(&pod.Spec.Containers[i].Resources)
	}
	if pod.Spec.Resources != nil {
		requirements(pod.Spec.Resources)
	}
	do(&pod.Spec.Overhead)
}
