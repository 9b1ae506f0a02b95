// Package v1alpha1 is the wire form of a layout. In a NodeLayout object, a node's agent publishes the machine, the
// rules and the observed holdings of its node.
//
// Invariant: [NodeLayout.Core] accepts any object. It returns either core values that are fully checked or one error
// that names the node, the field and the value. It never panics, and its memory is bounded by the bounds of package
// topo and those below. [FromCore] is its inverse.
//
// The package derives nothing: core computes what is free, what fits, and what is predicted. The package writes no file
// and sends no request; package client does.
//
// +kubebuilder:object:generate=true
// +groupName=tenon.sh
package v1alpha1

//go:generate ../../tools/run controller-gen object paths=.
//go:generate ../../tools/run controller-gen crd paths=. output:crd:dir=../../deploy/crd
