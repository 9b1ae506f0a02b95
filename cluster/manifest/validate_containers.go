package manifest

import (
	"fmt"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// containers checks the containers of a pod, its resource claims, which containers may use, and its overhead.
func containers(p *v1.Pod, at *field.Path) (out field.ErrorList) {
	s := &p.Spec
	claims, bad := podClaims(s, at.Child("resourceClaims"))
	out = append(out, bad...)
	if len(s.Containers) == 0 {
		out = append(out, field.Required(at.Child("containers"), ""))
	}
	seen, ports := map[string]bool{}, map[string]bool{}
	for i := range s.Containers {
		c, p := &s.Containers[i], at.Child("containers").Index(i)
		out = append(out, eachContainer(c, p, s, claims)...)
		out = append(out, once(seen, p.Child("name"), c.Name)...)
		out = append(out, hostPorts(c, p, ports)...)
		if s.HostNetwork {
			out = append(out, equalPorts(c, p.Child("ports"))...)
		}
	}
	for i := range s.InitContainers {
		c, p := &s.InitContainers[i], at.Child("initContainers").Index(i)
		out = append(out, eachContainer(c, p, s, claims)...)
		out = append(out, once(seen, p.Child("name"), c.Name)...)
		out = append(out, hostPorts(c, p, map[string]bool{})...)
		out = append(out, sidecarOnly(c, p)...)
	}
	return append(out, overhead(s.Overhead, at.Child("overhead"))...)
}

// eachContainer checks the fields that init containers and app containers have in common. claims are the names of the
// pod's resource claims.
func eachContainer(c *v1.Container, at *field.Path, s *v1.PodSpec, claims map[string]bool) (out field.ErrorList) {
	out = append(out, invalid(at.Child("name"), c.Name, validation.IsDNS1123Label(c.Name))...)
	if c.Image == "" {
		out = append(out, field.Required(at.Child("image"), ""))
	} else if strings.TrimSpace(c.Image) != c.Image {
		out = append(out, field.Invalid(at.Child("image"), c.Image, "must not have leading or trailing whitespace"))
	}
	out = append(out, resources(&c.Resources, at.Child("resources"), containerFault)...)
	out = append(out, claimed(c.Resources.Claims, at.Child("resources", "claims"), claims)...)
	out = append(out, containerPorts(c.Ports, at.Child("ports"))...)
	out = append(out, restarts(c, at, s)...)
	out = append(out, mounts(c, at.Child("volumeMounts"), s)...)
	out = append(out, oneOf(at.Child("imagePullPolicy"), c.ImagePullPolicy, "", v1.PullAlways, v1.PullIfNotPresent,
		v1.PullNever)...)
	out = append(out, oneOf(at.Child("terminationMessagePolicy"), c.TerminationMessagePolicy, "",
		v1.TerminationMessageReadFile, v1.TerminationMessageFallbackToLogsOnError)...)
	for i := range c.Env {
		if c.Env[i].Name == "" {
			out = append(out, field.Required(at.Child("env").Index(i).Child("name"), ""))
		}
	}
	return out
}

// restarts checks a container's restartPolicy and resizePolicy.
func restarts(c *v1.Container, at *field.Path, s *v1.PodSpec) (out field.ErrorList) {
	if c.RestartPolicy != nil {
		out = append(out, oneOf(at.Child("restartPolicy"), *c.RestartPolicy, v1.ContainerRestartPolicyAlways,
			v1.ContainerRestartPolicyOnFailure, v1.ContainerRestartPolicyNever)...)
	}
	seen := map[v1.ResourceName]bool{}
	for i, x := range c.ResizePolicy {
		p := at.Child("resizePolicy").Index(i)
		out = append(out, once(seen, p, x.ResourceName)...)
		out = append(out, oneOf(p.Child("resourceName"), x.ResourceName, v1.ResourceCPU, v1.ResourceMemory)...)
		out = append(out, oneOf(p.Child("restartPolicy"), x.RestartPolicy, v1.NotRequired, v1.RestartContainer)...)
		if s.RestartPolicy == v1.RestartPolicyNever && x.RestartPolicy != v1.NotRequired {
			out = append(out, field.Invalid(p.Child("restartPolicy"), x.RestartPolicy, "the pod's restartPolicy is Never"))
		}
	}
	return out
}

// sidecarOnly refuses, in ordinary init containers, fields that only sidecars among the init containers may have.
func sidecarOnly(c *v1.Container, at *field.Path) (out field.ErrorList) {
	if c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
		return nil
	}
	if c.Lifecycle != nil || c.LivenessProbe != nil || c.ReadinessProbe != nil || c.StartupProbe != nil {
		out = append(out, field.Forbidden(at, "an init container has no lifecycle and no probes, unless its restartPolicy "+
			"is Always"))
	}
	for i, x := range c.ResizePolicy {
		if x.RestartPolicy == v1.RestartContainer {
			out = append(out, field.Invalid(at.Child("resizePolicy").Index(i).Child("restartPolicy"), x.RestartPolicy,
				"an init container is not restarted, unless its restartPolicy is Always"))
		}
	}
	return out
}

func containerPorts(list []v1.ContainerPort, at *field.Path) (out field.ErrorList) {
	seen := map[string]bool{}
	for i, x := range list {
		p := at.Index(i)
		if x.Name != "" {
			out = append(out, invalid(p.Child("name"), x.Name, validation.IsValidPortName(x.Name))...)
			out = append(out, once(seen, p.Child("name"), x.Name)...)
		}
		out = append(out, inRange(p.Child("containerPort"), x.ContainerPort, 1, 65535)...)
		if x.HostPort != 0 {
			out = append(out, inRange(p.Child("hostPort"), x.HostPort, 1, 65535)...)
		}
		out = append(out, oneOf(p.Child("protocol"), x.Protocol, "", v1.ProtocolTCP, v1.ProtocolUDP, v1.ProtocolSCTP)...)
	}
	return out
}

// hostPorts refuses a host port that occurs twice. seen has the host ports of earlier containers, and hostPorts adds
// the ports of c.
func hostPorts(c *v1.Container, at *field.Path, seen map[string]bool) (out field.ErrorList) {
	for i, x := range c.Ports {
		if x.HostPort != 0 {
			protocol := x.Protocol
			if protocol == "" {
				protocol = v1.ProtocolTCP
			}
			out = append(out, once(seen, at.Child("ports").Index(i).Child("hostPort"),
				fmt.Sprintf("%s/%s/%d", protocol, x.HostIP, x.HostPort))...)
		}
	}
	return out
}

// equalPorts refuses a host port that differs from its container port. It is for pods with hostNetwork.
func equalPorts(c *v1.Container, at *field.Path) (out field.ErrorList) {
	for i, x := range c.Ports {
		if x.HostPort != 0 && x.HostPort != x.ContainerPort { // 0 gets its default
			out = append(out, field.Invalid(at.Index(i).Child("hostPort"), x.HostPort,
				"must be the containerPort, since hostNetwork is true"))
		}
	}
	return out
}

// mounts refuses mounts of volumes that the pod lacks, and two mounts at one path.
func mounts(c *v1.Container, at *field.Path, s *v1.PodSpec) (out field.ErrorList) {
	known := map[string]bool{}
	for i := range s.Volumes {
		known[s.Volumes[i].Name] = true
	}
	seen := map[string]bool{}
	for i, x := range c.VolumeMounts {
		p := at.Index(i)
		if !known[x.Name] {
			out = append(out, field.NotFound(p.Child("name"), x.Name))
		}
		if x.MountPath == "" {
			out = append(out, field.Required(p.Child("mountPath"), ""))
		}
		out = append(out, once(seen, p.Child("mountPath"), x.MountPath)...)
	}
	return out
}

// podClaims checks the resource claims of a pod, and returns the set of their names.
func podClaims(s *v1.PodSpec, at *field.Path) (names map[string]bool, out field.ErrorList) {
	names = map[string]bool{}
	for i, x := range s.ResourceClaims {
		p := at.Index(i)
		out = append(out, invalid(p.Child("name"), x.Name, validation.IsDNS1123Label(x.Name))...)
		out = append(out, once(names, p.Child("name"), x.Name)...)
		if (x.ResourceClaimName == nil) == (x.ResourceClaimTemplateName == nil) {
			out = append(out, field.Invalid(p, x.Name, "must have one of resourceClaimName and resourceClaimTemplateName"))
		}
		if n := x.ResourceClaimName; n != nil {
			out = append(out, invalid(p.Child("resourceClaimName"), *n, validation.IsDNS1123Subdomain(*n))...)
		}
		if n := x.ResourceClaimTemplateName; n != nil {
			out = append(out, invalid(p.Child("resourceClaimTemplateName"), *n, validation.IsDNS1123Subdomain(*n))...)
		}
	}
	return names, out
}

// claimed judges which claims a container uses. A container uses a claim as a whole, or several of its requests.
func claimed(list []v1.ResourceClaim, at *field.Path, known map[string]bool) (out field.ErrorList) {
	whole, parts := map[string]bool{}, map[string]bool{}
	for i, x := range list {
		p := at.Index(i)
		switch {
		case !known[x.Name]:
			out = append(out, field.NotFound(p, x.Name))
		case whole[x.Name] || x.Request == "" && parts[x.Name] || parts[x.Name+"/"+x.Request]:
			out = append(out, field.Duplicate(p, x.Name))
		}
		if x.Request == "" {
			whole[x.Name] = true
			continue
		}
		out = append(out, invalid(p.Child("request"), x.Request, validation.IsDNS1123Label(x.Request))...)
		parts[x.Name], parts[x.Name+"/"+x.Request] = true, true
	}
	return out
}

// overhead judges a pod's overhead by the rules for the limits of a container.
func overhead(list v1.ResourceList, at *field.Path) field.ErrorList {
	return resources(&v1.ResourceRequirements{Limits: list}, at, containerFault)
}
