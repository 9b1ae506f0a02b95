package v1alpha1

import (
	"fmt"
	"regexp"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/tenon-numa/tenon/core/state"
)

// Bounds on the data about the kubelet.
const (
	MaxVersion = 64  // bytes of a kubelet version
	MaxGates   = 64  // feature gates
	MaxInexact = 32  // reasons why a prediction may differ
	MaxMessage = 512 // bytes of one reason's message
	maxWord    = 63  // bytes of a feature gate's name, or of a reason's code
)

// Kubelet identifies the kubelet that admits the pods of the node.
type Kubelet struct {
	// version is the kubelet's release from status.nodeInfo.kubeletVersion of its Node, for example "v1.36.3"; empty if
	// unknown.
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:Pattern=`^[-+.0-9A-Za-z]*$`
	// +optional
	Version string `json:"version,omitempty"`
	// featureGates are the gates of the kubelet's resource managers that its configuration sets. All other gates have
	// the default of the release.
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=64
	// +optional
	FeatureGates []FeatureGate `json:"featureGates,omitempty"`
	// started is when the kubelet started, by the time of its podresources socket, which it makes anew at each start;
	// absent if unknown. While it is the same, the machine of the layout is the one with which the kubelet started, as
	// far as an agent has read it.
	// +optional
	Started metav1.MicroTime `json:"started,omitzero"`
}

// FeatureGate is one feature gate of the kubelet and its value.
type FeatureGate struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Za-z][0-9A-Za-z]*$`
	Name    string `json:"name"`
	Enabled bool   `json:"enabled"`
}

// Inexact is one reason why a prediction for the node may differ from what its kubelet does.
type Inexact struct {
	// code names the kind of reason. Agents of later releases may send further codes.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Code string `json:"code"`
	// message is the reason for people, in one line of printable ASCII.
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:Pattern=`^[ -~]*$`
	// +optional
	Message string `json:"message,omitempty"`
}

// FromInexact returns the wire form of reasons. It keeps at most MaxInexact of them, and MaxMessage bytes of each
// message; bytes outside of printable ASCII become "?".
func FromInexact(in []state.Inexact) (out []Inexact) {
	for _, r := range in[:min(len(in), MaxInexact)] {
		text := visible(r.Message)
		out = append(out, Inexact{Code: string(r.Code), Message: text[:min(len(text), MaxMessage)]})
	}
	return out
}

// The patterns of the fields above, the same as in their kubebuilder markers.
var (
	versionForm = regexp.MustCompile(`^[-+.0-9A-Za-z]*$`)
	gateForm    = regexp.MustCompile(`^[A-Za-z][0-9A-Za-z]*$`)
	codeForm    = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)
	messageForm = regexp.MustCompile(`^[ -~]*$`)
)

// IsVersion reports whether the text can be a kubelet version in a layout.
func IsVersion(text string) bool {
	return checkPattern("version", text, MaxVersion, versionForm) == nil
}

func (k *Kubelet) check() error {
	if err := checkPattern("version", k.Version, MaxVersion, versionForm); err != nil {
		return err
	}
	if err := within("featureGates", len(k.FeatureGates), 0, MaxGates); err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, g := range k.FeatureGates {
		if err := checkPattern("featureGates: name", g.Name, maxWord, gateForm); err != nil {
			return err
		}
		if seen[g.Name] {
			return fmt.Errorf("featureGates: %q is named twice", g.Name)
		}
		seen[g.Name] = true
	}
	return nil
}

// gates returns the values of the feature gates by name.
func (k *Kubelet) gates() map[string]bool {
	out := make(map[string]bool, len(k.FeatureGates))
	for _, g := range k.FeatureGates {
		out[g.Name] = g.Enabled
	}
	return out
}

// omitsVersion reports whether an agent wrote the layout without the kubelet's version, and without the reason that
// the version is unknown. Agents of earlier releases write no version.
func (l *NodeLayout) omitsVersion() bool {
	return l.Agent.ID != "" && l.Kubelet.Version == "" && !slices.ContainsFunc(l.Inexact, func(r Inexact) bool {
		return r.Code == string(state.UnknownKubeletVersion)
	})
}

// inexact checks reasons from a layout, and returns them as core values.
func inexact(in []Inexact) (out []state.Inexact, err error) {
	if err := within("reasons", len(in), 0, MaxInexact); err != nil {
		return nil, err
	}
	for i, r := range in {
		if err := checkPattern("code", r.Code, maxWord, codeForm); err != nil {
			return nil, fmt.Errorf("[%d]: %w", i, err)
		}
		if err := checkPattern("message", r.Message, MaxMessage, messageForm); err != nil {
			return nil, fmt.Errorf("[%d]: %w", i, err)
		}
		out = append(out, state.Inexact{Code: state.InexactCode(r.Code), Message: r.Message})
	}
	return out, nil
}

// checkPattern returns an error if a text from outside has too many bytes or does not match its pattern. The error
// quotes the text with escapes, so that its control characters reach no terminal.
func checkPattern(field, text string, limit int, form *regexp.Regexp) error {
	if len(text) > limit {
		return fmt.Errorf("%s: %q has %d bytes, at most %d are allowed", field, clip(text), len(text), limit)
	}
	if !form.MatchString(text) {
		return fmt.Errorf("%s: %q does not match %s", field, clip(text), form)
	}
	return nil
}
