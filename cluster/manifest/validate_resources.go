package manifest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	resourcehelper "k8s.io/component-helpers/resource"
)

// quotaPrefix begins the names of resources in ResourceQuotas, so no name of a container's resource may begin with
// it.
const quotaPrefix = "requests."

// resources checks the amounts of a container, or of a pod as a whole. valid returns why the name of a resource is
// wrong, or "".
func resources(r *v1.ResourceRequirements, at *field.Path, valid func(v1.ResourceName) string) (out field.ErrorList) {
	huge, plain := false, false
	for _, x := range []struct {
		field string
		list  v1.ResourceList
	}{{"limits", r.Limits}, {"requests", r.Requests}} {
		for _, name := range slices.Sorted(maps.Keys(x.list)) {
			p := at.Child(x.field).Key(string(name))
			if bad := valid(name); bad != "" {
				out = append(out, field.Invalid(p, string(name), bad))
				continue
			}
			out = append(out, amount(p, name, x.list[name])...)
			huge = huge || hugepages(name)
			plain = plain || name == v1.ResourceCPU || name == v1.ResourceMemory
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Requests)) {
		out = append(out, checkLimit(at.Child("requests").Key(string(name)), r, name)...)
	}
	if huge && !plain {
		out = append(out, field.Forbidden(at, "hugepages need cpu or memory beside them"))
	}
	return out
}

// amount checks one quantity of a resource, without regard to others.
func amount(at *field.Path, name v1.ResourceName, q resource.Quantity) field.ErrorList {
	bad := ""
	switch {
	case q.Sign() < 0:
		bad = "must not be negative"
	case extended(name) && q.MilliValue()%1000 != 0:
		bad = "must be a whole number"
	case hugepages(name) && !divisible(name, q):
		bad = "must be a multiple of the page size that the name has"
	}
	if bad == "" {
		return nil
	}
	return field.ErrorList{field.Invalid(at, q.String(), bad)}
}

// checkLimit refuses a request above its limit. For extended resources and hugepages, the two must be equal.
func checkLimit(at *field.Path, r *v1.ResourceRequirements, name v1.ResourceName) field.ErrorList {
	limit, limited := r.Limits[name]
	q := r.Requests[name]
	switch {
	case extended(name) || hugepages(name):
		if !limited || q.Cmp(limit) != 0 {
			return field.ErrorList{field.Invalid(at, q.String(), "request and limit must be the same")}
		}
	case limited && q.Cmp(limit) > 0:
		return field.ErrorList{field.Invalid(at, q.String(), "request is above the limit "+limit.String())}
	}
	return nil
}

func hugepages(name v1.ResourceName) bool {
	return strings.HasPrefix(string(name), v1.ResourceHugePagesPrefix)
}

// native reports whether a name is Kubernetes' own: it has no domain, or one that ends in kubernetes.io.
func native(name v1.ResourceName) bool {
	return !strings.Contains(string(name), "/") || strings.Contains(string(name), v1.ResourceDefaultNamespacePrefix)
}

// extended reports whether a name is the name of an extended resource, whose amounts must be whole numbers.
func extended(name v1.ResourceName) bool {
	return !native(name) && !strings.HasPrefix(string(name), quotaPrefix) &&
		len(validation.IsQualifiedName(quotaPrefix+string(name))) == 0
}

// divisible reports whether an amount of hugepages is a number of pages. The size is part of the resource's name.
func divisible(name v1.ResourceName, q resource.Quantity) bool {
	text := strings.TrimPrefix(string(name), v1.ResourceHugePagesPrefix)
	if hugeExponent.MatchString(text) {
		return false
	}
	page, err := parse(text)
	return err == nil && page.Sign() > 0 && page.MilliValue()%1000 == 0 && q.Value()%page.Value() == 0
}

// containerFault returns why a container cannot name a resource, or "".
func containerFault(name v1.ResourceName) string {
	if bad := validation.IsQualifiedName(string(name)); len(bad) > 0 {
		return bad[0]
	}
	switch {
	case strings.Contains(string(name), "/"):
		if !native(name) && !extended(name) {
			return "is not the name of an extended resource"
		}
	case name == v1.ResourceCPU, name == v1.ResourceMemory, name == v1.ResourceEphemeralStorage, hugepages(name):
	default:
		return "is no resource: want cpu, memory, ephemeral-storage, hugepages-SIZE, or a name with a domain"
	}
	return ""
}

// podFault returns why a pod as a whole cannot name a resource, or "".
func podFault(name v1.ResourceName) string {
	if bad := validation.IsQualifiedName(string(name)); len(bad) > 0 {
		return bad[0]
	}
	if !resourcehelper.IsSupportedPodLevelResource(name) {
		return "is no resource of a pod as a whole: want cpu, memory or hugepages-SIZE"
	}
	return ""
}

// podResources judges the amounts of a pod as a whole, which its containers must not exceed.
func podResources(p *v1.Pod, at *field.Path) (out field.ErrorList) {
	r := p.Spec.Resources
	if r == nil {
		return nil
	}
	if p.Spec.OS != nil && p.Spec.OS.Name == v1.Windows {
		return field.ErrorList{field.Forbidden(at, "the pod is for Windows")}
	}
	if r.Claims != nil {
		out = append(out, field.Forbidden(at.Child("claims"), "only containers have claims"))
	}
	out = append(out, resources(r, at, podFault)...)
	for name, q := range ordered(resourcehelper.AggregateContainerRequests(p, resourcehelper.PodResourcesOptions{})) {
		if own, ok := r.Requests[name]; ok && q.Cmp(own) > 0 {
			out = append(out, field.Invalid(at.Child("requests").Key(string(name)), own.String(),
				"the containers together request "+q.String()))
		}
	}
	for name, q := range ordered(resourcehelper.AggregateContainerLimits(p, resourcehelper.PodResourcesOptions{})) {
		if own, ok := r.Limits[name]; ok && hugepages(name) && q.Cmp(own) > 0 {
			out = append(out, field.Invalid(at.Child("limits").Key(string(name)), own.String(),
				"the containers together have the limit "+q.String()))
		}
	}
	for i := range p.Spec.Containers {
		for name, q := range ordered(p.Spec.Containers[i].Resources.Limits) {
			if own, ok := r.Limits[name]; ok && q.Cmp(own) > 0 {
				out = append(out, field.Invalid(at.Child("limits").Key(string(name)), own.String(),
					fmt.Sprintf("container %q has the limit %s", clip(p.Spec.Containers[i].Name), q.String())))
			}
		}
	}
	return out
}

// ordered iterates over amounts in the order of names.
func ordered(list v1.ResourceList) func(yield func(v1.ResourceName, resource.Quantity) bool) {
	return func(yield func(v1.ResourceName, resource.Quantity) bool) {
		for _, name := range slices.Sorted(maps.Keys(list)) {
			if !yield(name, list[name]) {
				return
			}
		}
	}
}
