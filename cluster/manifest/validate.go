package manifest

import (
	"errors"
	"fmt"

	v1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	unversioned "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// This file and its neighbours validate_*.go refuse pods that the API server refuses. They have its rules about
// names, amounts, containers, ports, claims, selectors, tolerations, affinity and spreading
// (pkg/apis/core/validation of Kubernetes 1.37, ValidatePodCreate). They check little or nothing of probes,
// environments, sources of volumes and security contexts. If releases or feature gates differ, a pod passes if one of
// them accepts it. A test in lab/admission compares them with the API server's own code.

// maxRefusal bounds the text of an error, in bytes.
const maxRefusal = 400

// Validate returns the first rule of the API server that a pod breaks, with its field; nil if it breaks none that is
// known here. The pod must have its defaults.
func Validate(p *v1.Pod) error {
	spec := field.NewPath("spec")
	var all field.ErrorList
	all = append(all, metadata(&p.ObjectMeta)...)
	all = append(all, containers(p, spec)...)
	all = append(all, podResources(p, spec.Child("resources"))...)
	all = append(all, placement(&p.Spec, spec)...)
	all = append(all, choices(&p.Spec, spec)...)
	all = append(all, names(&p.Spec, spec)...)
	if len(all) == 0 {
		return nil
	}
	return errors.New(shown(all[0].Error(), maxRefusal))
}

// validate is Validate for the pods of an object. For objects other than pods, the error adds that its field is one
// of the pod.
func validate(t *Template) error {
	err := Validate(t.Pod)
	if err != nil && t.Kind != "Pod" {
		return fmt.Errorf("in its pods, %w", err)
	}
	return err
}

func metadata(m *metav1.ObjectMeta) field.ErrorList {
	at := field.NewPath("metadata")
	out := unversioned.ValidateLabels(m.Labels, at.Child("labels"))
	return append(out, apivalidation.ValidateAnnotations(m.Annotations, at.Child("annotations"))...)
}

// choices checks fields that have one of a few values, and fields that exclude each other.
func choices(s *v1.PodSpec, at *field.Path) (out field.ErrorList) {
	out = append(out, oneOf(at.Child("restartPolicy"), s.RestartPolicy, "", v1.RestartPolicyAlways,
		v1.RestartPolicyOnFailure, v1.RestartPolicyNever)...)
	out = append(out, oneOf(at.Child("dnsPolicy"), s.DNSPolicy, "", v1.DNSClusterFirstWithHostNet, v1.DNSClusterFirst,
		v1.DNSDefault, v1.DNSNone)...)
	if s.PreemptionPolicy != nil {
		out = append(out, oneOf(at.Child("preemptionPolicy"), *s.PreemptionPolicy, v1.PreemptLowerPriority,
			v1.PreemptNever)...)
	}
	if s.OS != nil {
		out = append(out, oneOf(at.Child("os", "name"), s.OS.Name, v1.Linux, v1.Windows)...)
	}
	if s.DNSPolicy == v1.DNSNone && (s.DNSConfig == nil || len(s.DNSConfig.Nameservers) == 0) {
		out = append(out, field.Required(at.Child("dnsConfig", "nameservers"), "dnsPolicy is None"))
	}
	if s.ShareProcessNamespace != nil && *s.ShareProcessNamespace && s.HostPID {
		out = append(out, field.Forbidden(at.Child("shareProcessNamespace"), "hostPID is true"))
	}
	if s.OS != nil && s.OS.Name == v1.Windows && (s.HostPID || s.HostIPC || s.HostUsers != nil ||
		s.ShareProcessNamespace != nil) {
		out = append(out, field.Forbidden(at.Child("os"),
			"hostPID, hostIPC, hostUsers and shareProcessNamespace are for Linux"))
	}
	if s.HostUsers != nil && !*s.HostUsers && (s.HostPID || s.HostIPC || s.HostNetwork) {
		out = append(out, field.Forbidden(at.Child("hostUsers"), "hostPID, hostIPC or hostNetwork is true"))
	}
	if n := s.ActiveDeadlineSeconds; n != nil && (*n < 1 || *n > 1<<31-1) {
		out = append(out, field.Invalid(at.Child("activeDeadlineSeconds"), *n, "must be in 1..2147483647"))
	}
	if s.NodeName != "" && len(s.SchedulingGates) > 0 {
		out = append(out, field.Forbidden(at.Child("nodeName"), "the pod has schedulingGates"))
	}
	if len(s.EphemeralContainers) > 0 {
		out = append(out, field.Forbidden(at.Child("ephemeralContainers"), "cannot be set when a pod is created"))
	}
	return out
}

// names checks fields that name objects, gates or volumes.
func names(s *v1.PodSpec, at *field.Path) (out field.ErrorList) {
	for _, x := range []struct {
		field, value string
		bad          func(string) []string
	}{
		{"nodeName", s.NodeName, validation.IsDNS1123Subdomain},
		{"serviceAccountName", s.ServiceAccountName, validation.IsDNS1123Subdomain},
		{"priorityClassName", s.PriorityClassName, validation.IsDNS1123Subdomain},
		{"hostname", s.Hostname, validation.IsDNS1123Label},
		{"subdomain", s.Subdomain, validation.IsDNS1123Label},
	} {
		if x.value != "" {
			out = append(out, invalid(at.Child(x.field), x.value, x.bad(x.value))...)
		}
	}
	if n := s.RuntimeClassName; n != nil {
		out = append(out, invalid(at.Child("runtimeClassName"), *n, validation.IsDNS1123Subdomain(*n))...)
	}
	seen := map[string]bool{}
	for i, g := range s.SchedulingGates {
		p := at.Child("schedulingGates").Index(i)
		out = append(out, invalid(p, g.Name, validation.IsQualifiedName(g.Name))...)
		out = append(out, once(seen, p, g.Name)...)
	}
	for i, g := range s.ReadinessGates {
		out = append(out, invalid(at.Child("readinessGates").Index(i).Child("conditionType"), string(g.ConditionType),
			validation.IsQualifiedName(string(g.ConditionType)))...)
	}
	return append(out, volumes(s, at.Child("volumes"))...)
}

func volumes(s *v1.PodSpec, at *field.Path) (out field.ErrorList) {
	seen := map[string]bool{}
	for i := range s.Volumes {
		p, name := at.Index(i).Child("name"), s.Volumes[i].Name
		out = append(out, invalid(p, name, validation.IsDNS1123Label(name))...)
		out = append(out, once(seen, p, name)...)
	}
	return out
}

// invalid returns an error with the first complaint about a value, or nil if there is none.
func invalid(at *field.Path, value string, complaints []string) field.ErrorList {
	if len(complaints) == 0 {
		return nil
	}
	return field.ErrorList{field.Invalid(at, value, complaints[0])}
}

// once refuses a value that was seen before, and adds it to seen.
func once[T comparable](seen map[T]bool, at *field.Path, value T) field.ErrorList {
	if seen[value] {
		return field.ErrorList{field.Duplicate(at, value)}
	}
	seen[value] = true
	return nil
}

func oneOf[T ~string](at *field.Path, value T, known ...T) field.ErrorList {
	for _, k := range known {
		if value == k {
			return nil
		}
	}
	return field.ErrorList{field.NotSupported(at, value, known)}
}

func inRange(at *field.Path, value, low, high int32) field.ErrorList {
	if value < low || value > high {
		return field.ErrorList{field.Invalid(at, value, fmt.Sprintf("must be in %d..%d", low, high))}
	}
	return nil
}
