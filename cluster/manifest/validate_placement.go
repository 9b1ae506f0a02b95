package manifest

import (
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	unversioned "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// placement checks the fields that restrict which nodes a pod may go to.
func placement(s *v1.PodSpec, at *field.Path) (out field.ErrorList) {
	out = append(out, unversioned.ValidateLabels(s.NodeSelector, at.Child("nodeSelector"))...)
	out = append(out, tolerations(s.Tolerations, at.Child("tolerations"))...)
	out = append(out, spreads(s.TopologySpreadConstraints, at.Child("topologySpreadConstraints"))...)
	if s.Affinity == nil {
		return out
	}
	at = at.Child("affinity")
	if a := s.Affinity.NodeAffinity; a != nil {
		out = append(out, nodeAffinity(a, at.Child("nodeAffinity"))...)
	}
	if a := s.Affinity.PodAffinity; a != nil {
		out = append(out, podAffinity(a.RequiredDuringSchedulingIgnoredDuringExecution,
			a.PreferredDuringSchedulingIgnoredDuringExecution, at.Child("podAffinity"))...)
	}
	if a := s.Affinity.PodAntiAffinity; a != nil {
		out = append(out, podAffinity(a.RequiredDuringSchedulingIgnoredDuringExecution,
			a.PreferredDuringSchedulingIgnoredDuringExecution, at.Child("podAntiAffinity"))...)
	}
	return out
}

func tolerations(list []v1.Toleration, at *field.Path) (out field.ErrorList) {
	for i, x := range list {
		p := at.Index(i)
		if x.Key != "" {
			out = append(out, unversioned.ValidateLabelName(x.Key, p.Child("key"))...)
		} else if x.Operator != v1.TolerationOpExists {
			out = append(out, field.Invalid(p.Child("operator"), x.Operator, "must be Exists if there is no key"))
		}
		if x.TolerationSeconds != nil && x.Effect != v1.TaintEffectNoExecute {
			out = append(out, field.Invalid(p.Child("effect"), x.Effect, "must be NoExecute beside tolerationSeconds"))
		}
		switch x.Operator {
		case v1.TolerationOpEqual, "":
			out = append(out, invalid(p.Child("value"), x.Value, validation.IsValidLabelValue(x.Value))...)
		case v1.TolerationOpExists:
			if x.Value != "" {
				out = append(out, field.Invalid(p.Child("value"), x.Value, "must be empty beside the operator Exists"))
			}
		case "Lt", "Gt": // since 1.35, behind a gate
		default:
			out = append(out, oneOf(p.Child("operator"), x.Operator, v1.TolerationOpEqual, v1.TolerationOpExists)...)
		}
		out = append(out, oneOf(p.Child("effect"), x.Effect, "", v1.TaintEffectNoSchedule,
			v1.TaintEffectPreferNoSchedule, v1.TaintEffectNoExecute)...)
	}
	return out
}

func spreads(list []v1.TopologySpreadConstraint, at *field.Path) (out field.ErrorList) {
	type kind struct {
		key  string
		then v1.UnsatisfiableConstraintAction
	}
	seen := map[kind]bool{}
	for i, x := range list {
		p := at.Index(i)
		if x.MaxSkew <= 0 {
			out = append(out, field.Invalid(p.Child("maxSkew"), x.MaxSkew, "must be greater than zero"))
		}
		if x.TopologyKey == "" {
			out = append(out, field.Required(p.Child("topologyKey"), ""))
		}
		out = append(out, oneOf(p.Child("whenUnsatisfiable"), x.WhenUnsatisfiable, v1.DoNotSchedule,
			v1.ScheduleAnyway)...)
		out = append(out, once(seen, p, kind{x.TopologyKey, x.WhenUnsatisfiable})...)
		if n := x.MinDomains; n != nil && (*n <= 0 || x.WhenUnsatisfiable != v1.DoNotSchedule) {
			out = append(out, field.Invalid(p.Child("minDomains"), *n,
				"must be greater than zero, beside whenUnsatisfiable DoNotSchedule"))
		}
		out = append(out, inclusion(p.Child("nodeAffinityPolicy"), x.NodeAffinityPolicy)...)
		out = append(out, inclusion(p.Child("nodeTaintsPolicy"), x.NodeTaintsPolicy)...)
		out = append(out, labelKeys(p, x.MatchLabelKeys, nil, x.LabelSelector)...)
		out = append(out, selector(x.LabelSelector, p.Child("labelSelector"))...)
	}
	return out
}

func inclusion(at *field.Path, policy *v1.NodeInclusionPolicy) field.ErrorList {
	if policy == nil {
		return nil
	}
	return oneOf(at, *policy, v1.NodeInclusionPolicyIgnore, v1.NodeInclusionPolicyHonor)
}

func selector(s *metav1.LabelSelector, at *field.Path) field.ErrorList {
	return unversioned.ValidateLabelSelector(s, unversioned.LabelSelectorValidationOptions{}, at)
}

// labelKeys checks matchLabelKeys and mismatchLabelKeys. The API server or kube-scheduler takes the values of these
// keys from the pod's labels, and adds them to the selector s.
func labelKeys(at *field.Path, match, mismatch []string, s *metav1.LabelSelector) (out field.ErrorList) {
	out = append(out, keys(at.Child("matchLabelKeys"), match, s)...)
	out = append(out, keys(at.Child("mismatchLabelKeys"), mismatch, s)...)
	mismatched, selected := map[string]bool{}, map[string]bool{}
	for _, key := range mismatch {
		mismatched[key] = true
	}
	if s != nil {
		for key := range s.MatchLabels {
			selected[key] = true
		}
		for _, x := range s.MatchExpressions {
			selected[x.Key] = true
		}
	}
	for i, key := range match {
		if mismatched[key] || selected[key] {
			out = append(out, field.Invalid(at.Child("matchLabelKeys").Index(i), key,
				"is in mismatchLabelKeys or labelSelector, too"))
		}
	}
	return out
}

func keys(at *field.Path, list []string, s *metav1.LabelSelector) (out field.ErrorList) {
	if s == nil && len(list) > 0 {
		return field.ErrorList{field.Forbidden(at, "there is no labelSelector")}
	}
	for i, key := range list {
		out = append(out, unversioned.ValidateLabelName(key, at.Index(i))...)
	}
	return out
}

func nodeAffinity(a *v1.NodeAffinity, at *field.Path) (out field.ErrorList) {
	if r := a.RequiredDuringSchedulingIgnoredDuringExecution; r != nil {
		p := at.Child("requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")
		if len(r.NodeSelectorTerms) == 0 {
			out = append(out, field.Required(p, ""))
		}
		for i := range r.NodeSelectorTerms {
			out = append(out, nodeTerm(&r.NodeSelectorTerms[i], p.Index(i), true)...)
		}
	}
	for i := range a.PreferredDuringSchedulingIgnoredDuringExecution {
		x := &a.PreferredDuringSchedulingIgnoredDuringExecution[i]
		p := at.Child("preferredDuringSchedulingIgnoredDuringExecution").Index(i)
		out = append(out, inRange(p.Child("weight"), x.Weight, 1, 100)...)
		out = append(out, nodeTerm(&x.Preference, p.Child("preference"), false)...)
	}
	return out
}

// nodeTerm checks one term of a node affinity. In a preferred term, values may be any text.
func nodeTerm(t *v1.NodeSelectorTerm, at *field.Path, required bool) (out field.ErrorList) {
	for i, x := range t.MatchExpressions {
		p := at.Child("matchExpressions").Index(i)
		bad := false
		switch x.Operator {
		case v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn:
			bad = len(x.Values) == 0
		case v1.NodeSelectorOpExists, v1.NodeSelectorOpDoesNotExist:
			bad = len(x.Values) > 0
		case v1.NodeSelectorOpGt, v1.NodeSelectorOpLt:
			bad = len(x.Values) != 1
		default:
			out = append(out, field.Invalid(p.Child("operator"), x.Operator, "is not an operator of node selectors"))
		}
		if bad {
			out = append(out, field.Invalid(p.Child("values"), x.Values, "not so many for the operator "+string(x.Operator)))
		}
		out = append(out, unversioned.ValidateLabelName(x.Key, p.Child("key"))...)
		for k := 0; required && k < len(x.Values); k++ {
			out = append(out, invalid(p.Child("values").Index(k), x.Values[k], validation.IsValidLabelValue(x.Values[k]))...)
		}
	}
	for i, x := range t.MatchFields {
		p := at.Child("matchFields").Index(i)
		out = append(out, oneOf(p.Child("operator"), x.Operator, v1.NodeSelectorOpIn, v1.NodeSelectorOpNotIn)...)
		out = append(out, oneOf(p.Child("key"), x.Key, metav1.ObjectNameField)...)
		if len(x.Values) != 1 {
			out = append(out, field.Invalid(p.Child("values"), x.Values, "must be one"))
		}
		for k, value := range x.Values {
			out = append(out, invalid(p.Child("values").Index(k), value, validation.IsDNS1123Subdomain(value))...)
		}
	}
	return out
}

func podAffinity(required []v1.PodAffinityTerm, preferred []v1.WeightedPodAffinityTerm,
	at *field.Path) (out field.ErrorList) {
	for i := range required {
		out = append(out, podTerm(&required[i], at.Child("requiredDuringSchedulingIgnoredDuringExecution").Index(i))...)
	}
	for i := range preferred {
		p := at.Child("preferredDuringSchedulingIgnoredDuringExecution").Index(i)
		out = append(out, inRange(p.Child("weight"), preferred[i].Weight, 1, 100)...)
		out = append(out, podTerm(&preferred[i].PodAffinityTerm, p.Child("podAffinityTerm"))...)
	}
	return out
}

func podTerm(t *v1.PodAffinityTerm, at *field.Path) (out field.ErrorList) {
	out = append(out, selector(t.LabelSelector, at.Child("labelSelector"))...)
	out = append(out, selector(t.NamespaceSelector, at.Child("namespaceSelector"))...)
	for i, n := range t.Namespaces {
		out = append(out, invalid(at.Child("namespaces").Index(i), n, validation.IsDNS1123Label(n))...)
	}
	out = append(out, labelKeys(at, t.MatchLabelKeys, t.MismatchLabelKeys, t.LabelSelector)...)
	return append(out, unversioned.ValidateLabelName(t.TopologyKey, at.Child("topologyKey"))...)
}
