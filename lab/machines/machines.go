// Package machines is a catalogue of described machines: the hardware as a text that [topo.ParseText] reads, and the
// KubeletConfiguration that an administrator would give it.
//
// A machine NAME is two files, NAME.txt and NAME.yaml; the built-in ones are embedded, and [Read] reads a user's own
// from any file system. Invariant: a Machine that the package returns has valid hardware, a configuration without
// unknown fields, and reservations that the hardware can serve. The package does not apply the kubelet's defaults; the
// kubelet does.
package machines

import (
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/printable"
	"github.com/tenon-numa/tenon/core/topo"
)

//go:embed *.txt *.yaml
var catalogue embed.FS

// maxFile bounds the size of a machine's files, in bytes.
const maxFile = 1 << 20

// validName matches DNS labels (RFC 1123), because the names of machines become part of paths and of node names.
var validName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// Machine is one described machine.
type Machine struct {
	Name   string
	Source string // the source of the facts
	Topo   *topo.Machine
	// Kubelet is the configuration as written, without defaults.
	Kubelet *kubeletconfig.KubeletConfiguration
	// Text and YAML are the contents of the machine's two files.
	Text, YAML string
}

// List returns the names of the built-in machines in ascending order.
func List() []string {
	files, err := fs.Glob(catalogue, "*.txt")
	if err != nil {
		panic(err) // the pattern is a constant
	}
	var names []string
	for _, f := range files {
		names = append(names, strings.TrimSuffix(f, ".txt"))
	}
	slices.Sort(names)
	return names
}

// Load returns a built-in machine.
func Load(name string) (Machine, error) {
	m, err := Read(catalogue, name)
	if errors.Is(err, fs.ErrNotExist) {
		if near := printable.Nearest(name, List()); near != "" {
			return Machine{}, fmt.Errorf("no machine %q; %s may be meant", name, near)
		}
		return Machine{}, fmt.Errorf("no machine %q: have %s", name, strings.Join(List(), ", "))
	}
	return m, err
}

// Read returns the machine that NAME.txt and NAME.yaml in a file system describe. If one of them does not exist, the
// error wraps fs.ErrNotExist.
func Read(fsys fs.FS, name string) (Machine, error) {
	if !validName.MatchString(name) {
		return Machine{}, fmt.Errorf("machine name %q is not a DNS label", name)
	}
	text, err := readFile(fsys, name+".txt")
	if err != nil {
		return Machine{}, fmt.Errorf("read machine %s: %w", name, err)
	}
	config, err := readFile(fsys, name+".yaml")
	if err != nil {
		return Machine{}, fmt.Errorf("read machine %s: %w", name, err)
	}
	return Parse(name, text, config)
}

func readFile(fsys fs.FS, name string) (string, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return "", err
	}
	if len(b) > maxFile {
		return "", fmt.Errorf("%s is larger than %d bytes", name, maxFile)
	}
	return string(b), nil
}

// Parse makes a machine of the contents of its two files.
func Parse(name, text, config string) (Machine, error) {
	parsed, err := topo.ParseText(strings.NewReader(text))
	if err != nil {
		return Machine{}, fmt.Errorf("machine %s.txt: %w", name, err)
	}
	hardware, err := topo.New(parsed.Spec)
	if err != nil {
		return Machine{}, fmt.Errorf("machine %s.txt: %w", name, err)
	}
	k := &kubeletconfig.KubeletConfiguration{}
	if err := yaml.UnmarshalStrict([]byte(config), k); err != nil {
		return Machine{}, fmt.Errorf("machine %s.yaml: %w", name, err)
	}
	m := Machine{Name: name, Source: parsed.Source, Topo: hardware, Kubelet: k, Text: text, YAML: config}
	if err := m.check(); err != nil {
		return Machine{}, fmt.Errorf("machine %s.yaml: %w", name, err)
	}
	return m, nil
}

// check compares the reservations with the hardware, so that a mistake in a description is reported as such.
// Otherwise a kubelet would not start, and its error would be harder to understand.
func (m Machine) check() error {
	if got, want := m.Kubelet.APIVersion, kubeletconfig.SchemeGroupVersion.String(); got != want {
		return fmt.Errorf("apiVersion is %q, want %q", got, want)
	}
	if m.Kubelet.Kind != "KubeletConfiguration" {
		return fmt.Errorf("kind is %q, want KubeletConfiguration", m.Kubelet.Kind)
	}
	reserved, err := idset.Parse[idset.CPU](m.Kubelet.ReservedSystemCPUs)
	if err != nil {
		return fmt.Errorf("reservedSystemCPUs: %w", err)
	}
	if extra := reserved.Minus(m.Topo.CPUs()); !extra.Empty() {
		return fmt.Errorf("reservedSystemCPUs: machine has no CPU %s", extra)
	}
	for _, r := range m.Kubelet.ReservedMemory {
		at, ok := m.Topo.Position(idset.NUMA(r.NumaNode))
		if !ok {
			return fmt.Errorf("reservedMemory: machine has no NUMA node %d", r.NumaNode)
		}
		for kind, q := range r.Limits {
			if have := m.Topo.NUMAs()[at].Capacity(string(kind)); q.Sign() < 0 || q.Value() > have {
				return fmt.Errorf("reservedMemory: NUMA node %d has %s of %s, cannot reserve %s",
					r.NumaNode, topo.FormatBytes(have), kind, q.String())
			}
		}
	}
	return nil
}
