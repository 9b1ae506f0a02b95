// Package dropin merges a kubelet's configuration with the kubelet's own code. Tests compare it with the result of
// node/kubelet for the same files.
//
// Invariant: reading, merging, defaults and the conversion back are all the kubelet's. The package refuses files with
// which a kubelet would refuse to start.
package dropin

import (
	"context"
	"fmt"
	_ "unsafe" // for go:linkname

	configv1beta1 "k8s.io/kubelet/config/v1beta1"
	_ "k8s.io/kubernetes/cmd/kubelet/app" // for go:linkname
	"k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/apis/config/scheme"
	"k8s.io/kubernetes/pkg/kubelet/kubeletconfig/configfiles"
	"k8s.io/kubernetes/pkg/util/filesystem"
)

// merge is the function with which the kubelet's command merges the files of --config-dir into a configuration. The
// command does not export it.
//
//go:linkname merge k8s.io/kubernetes/cmd/kubelet/app.mergeKubeletConfigurations
func merge(c *config.KubeletConfiguration, dir string) ([]string, error)

// Merge returns what a kubelet makes of --config and --config-dir, without its other flags.
func Merge(ctx context.Context, file, dir string) (*configv1beta1.KubeletConfiguration, error) {
	s, _, err := scheme.NewSchemeAndCodecs()
	if err != nil {
		return nil, fmt.Errorf("make kubelet scheme: %w", err)
	}
	loader, err := configfiles.NewFsLoader(&filesystem.DefaultFs{}, file)
	if err != nil {
		return nil, fmt.Errorf("make the loader of %s: %w", file, err)
	}
	internal, err := loader.Load(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := merge(internal, dir); err != nil {
		return nil, fmt.Errorf("merge %s: %w", dir, err)
	}
	out := &configv1beta1.KubeletConfiguration{}
	if err := s.Convert(internal, out, nil); err != nil {
		return nil, fmt.Errorf("convert: %w", err)
	}
	out.SetGroupVersionKind(configv1beta1.SchemeGroupVersion.WithKind("KubeletConfiguration"))
	return out, nil
}
