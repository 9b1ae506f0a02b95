// Package groups tests gangs of Kubernetes' Workload API on a lab cluster: groups of pods that start together or not at
// all. It has tests only, and a process of its own for them, because the feature gates for gangs are global.
//
// Invariant: the API server, kube-scheduler and the kubelets' managers are the release's own; only the gates differ
// from their defaults. The package refuses releases before 1.37, where the API is not the same.
package groups
