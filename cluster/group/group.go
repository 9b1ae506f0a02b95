// Package group reads by which PodGroup a pod is scheduled, with the pod's field of each release of Kubernetes.
//
// Invariant: it is the only package of cluster that names the field, which libraries before 1.36 do not have. So
// package cluster/kube builds with every release, as Volcano's plugin needs. The package reads no PodGroups, and does
// not know whether there is one with the name.
package group
