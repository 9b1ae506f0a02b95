// Package fwk gives this project one import for kube-scheduler's plugin framework, whatever release of Kubernetes it is
// built for. From 1.35 on, the names come from k8s.io/kube-scheduler/framework. Before, some come from
// k8s.io/kubernetes/pkg/scheduler/framework.
//
// Invariant: a name that the release has is an alias, so a plugin that is written with this package is a plugin of the
// framework. A type that the release lacks is declared here, and kube-scheduler of that release never uses it. The
// functions hide differences between releases.
package fwk
