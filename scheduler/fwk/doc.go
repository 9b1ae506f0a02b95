// Package fwk has the names of kube-scheduler's plugin framework that this project uses, from where the release of
// Kubernetes that it is built for has them: k8s.io/kube-scheduler/framework from 1.35 on, and in part
// k8s.io/kubernetes/pkg/scheduler/framework before.
//
// Invariant: every name is an alias, so a plugin that is written with this package is a plugin of the framework. What a
// release lacks is declared here; its kube-scheduler does not call it. The few functions read what a release has under
// another name.
package fwk
