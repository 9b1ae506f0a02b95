// Package dropin merges a kubelet's configuration with the kubelet's own code. Tests compare it with the result of
// node/kubelet for the same files.
//
// Invariant: reading, merging, defaults and the conversion back are all the kubelet's. The package refuses files with
// which a kubelet would refuse to start.
package dropin

import (
	"fmt"
	"os"
	_ "unsafe" // for go:linkname

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	configv1beta1 "k8s.io/kubelet/config/v1beta1"
	_ "k8s.io/kubernetes/cmd/kubelet/app" // for go:linkname
	"k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/apis/config/scheme"
)

// The kubelet's command does not export how it merges.
//
//go:linkname merge k8s.io/kubernetes/cmd/kubelet/app.mergeKubeletConfigurations
func merge(c *config.KubeletConfiguration, dir string) ([]string, error)

// Merge returns what a kubelet makes of --config and --config-dir, without its other flags.
func Merge(file, dir string) (*configv1beta1.KubeletConfiguration, error) {
	s, codecs, err := scheme.NewSchemeAndCodecs(serializer.EnableStrict)
	if err != nil {
		return nil, fmt.Errorf("make kubelet scheme: %w", err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	internal := &config.KubeletConfiguration{}
	if err := runtime.DecodeInto(codecs.UniversalDecoder(), data, internal); err != nil {
		return nil, fmt.Errorf("decode %s: %w", file, err)
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
