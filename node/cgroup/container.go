package cgroup

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	apipod "github.com/tenon-numa/tenon/api/pod"
	"github.com/tenon-numa/tenon/core/printable"
)

// Container is a running container, with its identity at the API server.
type Container struct {
	Namespace, Pod, Name string
	// UID is the pod's UID in the kubelet.
	UID string
	// QOS is the QoS class of the pod.
	QOS v1.PodQOSClass
	// ID is the runtime's name of the container, "containerd://0123abcd".
	ID string
}

// String names the container for an error.
func (c Container) String() string { return c.Namespace + "/" + c.Pod + "/" + c.Name }

// Running returns the containers that have an ID in the status of a node's pods, oldest pods first. They all run if
// the pods come from the agent's watch, which keeps only the statuses of running containers. Running leaves out
// mirror pods whose static pod is not known.
func Running(pods []*v1.Pod) []Container {
	pods = slices.Clone(pods)
	uids := apipod.KubeletUIDs(pods)
	slices.SortFunc(pods, func(a, b *v1.Pod) int {
		return cmp.Or(since(a).Compare(since(b)), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	var out []Container
	for _, p := range pods {
		uid, known := uids[p.UID]
		if !known {
			continue
		}
		c := Container{Namespace: p.Namespace, Pod: p.Name, UID: uid, QOS: p.Status.QOSClass}
		for _, statuses := range [][]v1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
			for _, s := range statuses {
				if s.ContainerID != "" {
					c.Name, c.ID = s.Name, s.ContainerID
					out = append(out, c)
				}
			}
		}
	}
	return out
}

// since returns when a pod started; before that is known, when it was created.
func since(p *v1.Pod) time.Time {
	if p.Status.StartTime != nil {
		return p.Status.StartTime.Time
	}
	return p.CreationTimestamp.Time
}

// paths returns the possible directories of the container: for the systemd cgroup driver, then for cgroupfs. The
// kubelet names all but the last element (pod_container_manager_linux.go and cgroup_manager_linux.go), and the
// runtime names the last one. With cgroupfs, the last element is the ID alone for containerd and docker, and the name
// of the scope for CRI-O.
func (t *Tree) paths(c Container) ([]string, error) {
	if err := checkName(c.UID); err != nil {
		return nil, fmt.Errorf("UID of the pod: %w", err)
	}
	runtime, id, ok := strings.Cut(c.ID, "://")
	if !ok {
		return nil, fmt.Errorf("ID %q does not name a runtime", clip(c.ID))
	}
	if err := checkName(id); err != nil {
		return nil, fmt.Errorf("ID of the container: %w", err)
	}
	scope := map[string]string{"containerd": "cri-containerd-", "cri-o": "crio-", "docker": "docker-"}[runtime]
	if scope == "" {
		return nil, fmt.Errorf("runtime %q is not known", clip(runtime))
	}
	parts := append(slices.Clone(t.parents), "kubepods")
	switch c.QOS {
	case v1.PodQOSGuaranteed:
	case v1.PodQOSBurstable, v1.PodQOSBestEffort:
		parts = append(parts, strings.ToLower(string(c.QOS)))
	default:
		return nil, fmt.Errorf("QoS class %q is not known", clip(string(c.QOS)))
	}
	parts = append(parts, "pod"+c.UID)
	leaf := id
	if runtime == "cri-o" {
		leaf = scope + id
	}
	return []string{path.Join(slicePath(parts), scope+id+".scope"), path.Join(path.Join(parts...), leaf)}, nil
}

// slicePath returns the path that the systemd driver gives a cgroup. Every part is a slice whose name contains the
// names above it, joined by "-". A name itself must not contain "-" (systemd.slice(5)).
func slicePath(parts []string) string {
	var names, out []string
	for _, p := range parts {
		names = append(names, strings.ReplaceAll(p, "-", "_"))
		out = append(out, strings.Join(names, "-")+".slice")
	}
	return path.Join(out...)
}

// checkName refuses texts that cannot be part of a cgroup's name.
func checkName(s string) error {
	if s == "" || len(s) > maxName {
		return fmt.Errorf("a name of %d bytes, want 1 to %d", len(s), maxName)
	}
	for _, r := range s {
		plain := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_'
		if !plain {
			return fmt.Errorf("%q is not a name of letters, digits, - and _", clip(s))
		}
	}
	return nil
}

// clip shortens a text for an error.
func clip(s string) string { return printable.Clip(s, 40) }
