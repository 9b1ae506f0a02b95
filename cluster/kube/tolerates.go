package kube

import v1 "k8s.io/api/core/v1"

// tolerates reports whether one of the tolerations tolerates the taint, by the rules of ToleratesTaint in
// k8s.io/api/core/v1, whose arguments differ between releases. The operators Lt and Gt tolerate nothing.
func tolerates(list []v1.Toleration, t *v1.Taint) bool {
	for i := range list {
		l := &list[i]
		if l.Effect != "" && l.Effect != t.Effect || l.Key != "" && l.Key != t.Key {
			continue
		}
		switch l.Operator {
		case v1.TolerationOpExists:
			return true
		case "", v1.TolerationOpEqual:
			if l.Value == t.Value {
				return true
			}
		}
	}
	return false
}
