package kube

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Storage has the volume objects of a cluster by which kube-scheduler judges pods.
type Storage struct {
	Claims      []v1.PersistentVolumeClaim
	Volumes     []v1.PersistentVolume
	Classes     []storagev1.StorageClass
	Drivers     []storagev1.CSIDriver
	Nodes       []storagev1.CSINode
	Attachments []storagev1.VolumeAttachment
	// Capacities are the drivers' reports; nil where they are not known.
	Capacities []storagev1.CSIStorageCapacity
}

// readStorage lists the volume objects of a cluster. It returns nil if the identity may not list one of the kinds, or
// the API server does not serve it. The capacities are an exception: without them, only Capacities is nil. pods are the
// namespaces whose pods were read.
func (r *Reader) readStorage(ctx context.Context, pods *Seen) (*Storage, error) {
	out, s := &Storage{}, r.storage
	all := []struct {
		what string
		list func(metav1.ListOptions) error
	}{
		{"claims", func(metav1.ListOptions) (err error) {
			out.Claims, err = r.claims(ctx, pods)
			return err
		}},
		{"volumes", func(o metav1.ListOptions) error {
			l, err := r.cluster.Volumes.List(ctx, o)
			out.Volumes = l.Items
			return err
		}},
		{"storage classes", func(o metav1.ListOptions) error {
			l, err := s.Classes.List(ctx, o)
			out.Classes = l.Items
			return err
		}},
		{"CSI drivers", func(o metav1.ListOptions) error {
			l, err := s.Drivers.List(ctx, o)
			out.Drivers = l.Items
			return err
		}},
		{"CSI nodes", func(o metav1.ListOptions) error {
			l, err := s.Nodes.List(ctx, o)
			out.Nodes = l.Items
			return err
		}},
		{"volume attachments", func(o metav1.ListOptions) error {
			l, err := s.Attachments.List(ctx, o)
			out.Attachments = l.Items
			return err
		}},
	}
	for _, x := range all {
		switch err := x.list(metav1.ListOptions{}); {
		case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("list %s: %w", x.what, err)
		}
	}
	l, err := s.Capacities.List(ctx, metav1.ListOptions{})
	switch {
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		return out, nil
	case err != nil:
		return nil, fmt.Errorf("list storage capacities: %w", err)
	}
	out.Capacities = append([]storagev1.CSIStorageCapacity{}, l.Items...)
	return out, nil
}

// claims lists the claims of all namespaces or, if that is forbidden, of the namespaces whose pods were read: a
// pod uses claims of its own namespace only. If it may not list the claims of each of these, it returns the API
// server's error, since a claim that was not read would count as missing.
func (r *Reader) claims(ctx context.Context, pods *Seen) (out []v1.PersistentVolumeClaim, err error) {
	all, err := r.cluster.Claims.List(ctx, metav1.ListOptions{})
	if err == nil || !apierrors.IsForbidden(err) || pods == nil || len(pods.Namespaces) == 0 {
		return all.Items, err
	}
	for _, namespace := range pods.Namespaces {
		some, err := r.cluster.Claims.In(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		out = append(out, some.Items...)
	}
	return out, nil
}

// readNamespaces returns the labels of each namespace, or nil if the identity may not read them.
func (r *Reader) readNamespaces(ctx context.Context) (map[string]map[string]string, error) {
	l, err := r.cluster.Namespaces.List(ctx, metav1.ListOptions{})
	switch {
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("list namespaces: %w", err)
	}
	out := map[string]map[string]string{}
	for i := range l.Items {
		out[l.Items[i].Name] = l.Items[i].Labels
	}
	return out, nil
}
