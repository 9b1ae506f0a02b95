package kubelet

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/yaml"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/tenon-numa/tenon/core/idset"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/topo"
)

// Configuration is the part of a KubeletConfiguration that concerns alignment.
type Configuration struct {
	// Rules are complete except for CPU.Reserved if ReserveCPUs is set.
	Rules place.Rules
	// ReserveCPUs is how many CPUs the static CPU manager reserves by its own choice: the sum of systemReserved and
	// kubeReserved, rounded up. It is 0 if reservedSystemCPUs lists the reserved CPUs, or if the CPU manager's policy
	// is none.
	ReserveCPUs int
	// Effective is true if the kubelet itself reported the values, flags included, and false if its files were read.
	Effective bool
	// Gates are the configured feature gates that concern the managers. It lacks gates that the configuration does not
	// set.
	Gates map[string]bool
	// Refusal is why the agent does not pin containers although its flags request that; otherwise nil.
	Refusal error
	// Doubt is why the files were read although the kubelet's endpoint was to be asked first. It is nil if the endpoint
	// answered, or if only files were to be read.
	Doubt error
}

// ParseConfiguration reads a KubeletConfiguration (kubelet.config.k8s.io/v1beta1) as YAML or JSON. Like the kubelet, it
// ignores unknown fields. It returns an error for values with which the kubelet would refuse to start, and for a policy
// or an option that place does not model.
func ParseConfiguration(data []byte) (Configuration, error) {
	var in kubeletv1beta1.KubeletConfiguration
	if err := decode(data, &in); err != nil {
		return Configuration{}, err
	}
	if err := checkKind(in.GroupVersionKind()); err != nil {
		return Configuration{}, err
	}
	return configuration(&in)
}

// decode reads YAML or JSON leniently, as the kubelet does after its strict reading has failed
// (pkg/kubelet/kubeletconfig/util/codec): names of fields are case-sensitive, and unknown fields are ignored. Text
// that begins with { is read as JSON only (k8s.io/apimachinery/pkg/runtime/serializer/json, RecognizesData).
func decode(data []byte, into any) error {
	if yaml.IsJSONBuffer(data) {
		if err := utiljson.Unmarshal(data, into); err != nil {
			return fmt.Errorf("parse as JSON, since it begins with {: %w", err)
		}
		return nil
	}
	text, err := sigsyaml.YAMLToJSON(data)
	if err == nil {
		err = utiljson.Unmarshal(text, into)
	}
	if err != nil {
		return fmt.Errorf("parse: %w", err)
	}
	return nil
}

func checkKind(got schema.GroupVersionKind) error {
	if want := kubeletv1beta1.SchemeGroupVersion.WithKind("KubeletConfiguration"); got != want {
		return fmt.Errorf("object is %q, want %q", clip(got.String()), want)
	}
	return nil
}

// configuration picks the fields that concern alignment.
func configuration(in *kubeletv1beta1.KubeletConfiguration) (c Configuration, err error) {
	if err := topologyRules(in, &c.Rules.Topology); err != nil {
		return c, err
	}
	if err := cpuRules(in, &c); err != nil {
		return c, err
	}
	if c.Gates, err = managerGates(in.FeatureGates); err != nil {
		return c, err
	}
	err = memoryRules(in, &c.Rules.Memory)
	return c, err
}

// On returns the rules on a machine, for a kubelet of a release; 0 means the default release. If the configuration
// reserves a number of CPUs, On picks the CPUs as the static CPU manager does. A reserved CPU that the machine lacks
// is an error. So is a reservation of memory on a NUMA node that the machine lacks, but only under the static policy:
// otherwise On drops it.
func (c Configuration) On(m *topo.Machine, release place.Release) (place.Rules, error) {
	r := c.Rules
	r.Release = release
	r.PodLevelManagers = release.PodLevelManagers(c.Gates)
	if c.ReserveCPUs > 0 && r.CPU.Static {
		set, err := r.Reserve(m, c.ReserveCPUs)
		if err != nil {
			return r, err
		}
		r.CPU.Reserved = set
	}
	if extra := r.CPU.Reserved.Minus(m.CPUs()); !extra.Empty() {
		return r, fmt.Errorf("reservedSystemCPUs: machine has no cpu %d", extra.Min())
	}
	var reserved []place.Reserved
	for _, x := range r.Memory.Reserved {
		if _, err := m.MaskOf(x.NUMA); err == nil {
			reserved = append(reserved, x)
		} else if r.Memory.Static { // under policy None the kubelet does not look
			return r, fmt.Errorf("reservedMemory: %w", err)
		}
	}
	r.Memory.Reserved = reserved
	return r, nil
}

func topologyRules(in *kubeletv1beta1.KubeletConfiguration, r *place.TopologyRules) error {
	var ok bool
	if r.Policy, ok = place.ParsePolicy(cmp.Or(in.TopologyManagerPolicy, "none")); !ok {
		return fmt.Errorf("topologyManagerPolicy: unknown value %q: want none, best-effort, restricted or single-numa-node",
			clip(in.TopologyManagerPolicy))
	}
	if r.Scope, ok = place.ParseScope(cmp.Or(in.TopologyManagerScope, "container")); !ok {
		return fmt.Errorf("topologyManagerScope: unknown value %q: want container or pod", clip(in.TopologyManagerScope))
	}
	if r.Policy == place.None {
		// Under policy none the kubelet does not read the options (topologymanager/topology_manager.go, NewManager), so
		// bad ones are no error. If all are valid, they are kept, because they take effect when the policy changes.
		options := place.TopologyRules{}
		if topologyOptions(in.TopologyManagerPolicyOptions, &options) == nil {
			r.PreferClosest, r.MaxNUMAs = options.PreferClosest, options.MaxNUMAs
		}
		return nil
	}
	return topologyOptions(in.TopologyManagerPolicyOptions, r)
}

func topologyOptions(options map[string]string, r *place.TopologyRules) error {
	for _, opt := range slices.Sorted(maps.Keys(options)) {
		value := options[opt]
		switch opt {
		case "prefer-closest-numa-nodes":
			b, err := strconv.ParseBool(value)
			if err != nil {
				return fmt.Errorf("topologyManagerPolicyOptions: %s: %q is not true or false", opt, clip(value))
			}
			r.PreferClosest = b
		case "max-allowable-numa-nodes":
			// The lower bound is the kubelet's own (topologymanager/policy_options.go).
			n, err := strconv.Atoi(value)
			if err != nil || n < 8 || n > 1<<16 {
				return fmt.Errorf("topologyManagerPolicyOptions: %s: %q is not a number in 8..65536", opt, clip(value))
			}
			r.MaxNUMAs = n
		default:
			return fmt.Errorf("topologyManagerPolicyOptions: unknown option %q", clip(opt))
		}
	}
	return nil
}

func cpuRules(in *kubeletv1beta1.KubeletConfiguration, c *Configuration) error {
	r := &c.Rules.CPU
	switch cmp.Or(in.CPUManagerPolicy, "none") {
	case "none":
	case "static":
		r.Static = true
	default:
		return fmt.Errorf("cpuManagerPolicy: unknown value %q: want none or static", clip(in.CPUManagerPolicy))
	}
	options := map[string]*bool{
		"full-pcpus-only":                  &r.FullPCPUsOnly,
		"distribute-cpus-across-numa":      &r.DistributeAcrossNUMA,
		"align-by-socket":                  &r.AlignBySocket,
		"distribute-cpus-across-cores":     &r.DistributeAcrossCores,
		"strict-cpu-reservation":           &r.StrictReservation,
		"prefer-align-cpus-by-uncorecache": &r.PreferAlignByUncoreCaches,
	}
	for _, opt := range slices.Sorted(maps.Keys(in.CPUManagerPolicyOptions)) {
		to, ok := options[opt]
		if !ok {
			return fmt.Errorf("cpuManagerPolicyOptions: unknown option %q", clip(opt))
		}
		b, err := strconv.ParseBool(in.CPUManagerPolicyOptions[opt])
		if err != nil {
			return fmt.Errorf("cpuManagerPolicyOptions: %s: %q is not true or false", opt, clip(in.CPUManagerPolicyOptions[opt]))
		}
		*to = b
	}
	return reservedCPUs(in, c)
}

// reservedList reads reservedSystemCPUs. Unlike Linux' own lists, the kubelet's may not have blanks
// (k8s.io/utils/cpuset, Parse): a kubelet with "0, 16" does not start.
func reservedList(in *kubeletv1beta1.KubeletConfiguration) (idset.Set[idset.CPU], error) {
	text := in.ReservedSystemCPUs
	if strings.ContainsAny(text, " \t\r\n\x00") {
		return idset.Set[idset.CPU]{}, fmt.Errorf("reservedSystemCPUs: %q has blanks, which the kubelet does not read",
			clip(text))
	}
	set, err := idset.Parse[idset.CPU](text)
	if err != nil {
		return set, fmt.Errorf("reservedSystemCPUs: %w", err)
	}
	return set, nil
}

// reservedCPUs sets the reserved CPUs in c as the kubelet does: a list takes precedence over the amounts
// (cmd/kubelet/app/server.go), and the static policy does not start without a reservation
// (cpumanager/cpu_manager.go).
func reservedCPUs(in *kubeletv1beta1.KubeletConfiguration, c *Configuration) error {
	set, err := reservedList(in)
	if err != nil {
		return err
	}
	c.Rules.CPU.Reserved = set
	if !set.Empty() || !c.Rules.CPU.Static {
		return nil
	}
	var milli int64
	for _, f := range []struct {
		field string
		list  map[string]string
	}{{"systemReserved", in.SystemReserved}, {"kubeReserved", in.KubeReserved}} {
		text, ok := f.list["cpu"]
		if !ok {
			continue
		}
		q, err := resource.ParseQuantity(text)
		if err != nil || q.Sign() < 0 || q.CmpInt64(topo.MaxCPUs) > 0 {
			return fmt.Errorf("%s: cpu: %q is not an amount in 0..%d", f.field, clip(text), topo.MaxCPUs)
		}
		milli += q.MilliValue()
	}
	c.ReserveCPUs = int((milli + 999) / 1000)
	if c.ReserveCPUs == 0 {
		return fmt.Errorf("cpuManagerPolicy: static needs reservedSystemCPUs, or cpu in systemReserved or kubeReserved")
	}
	return nil
}

func memoryRules(in *kubeletv1beta1.KubeletConfiguration, r *place.MemoryRules) error {
	switch cmp.Or(in.MemoryManagerPolicy, "None") {
	case "None":
	case "Static":
		r.Static = true
	default:
		return fmt.Errorf("memoryManagerPolicy: unknown value %q: want None or Static", clip(in.MemoryManagerPolicy))
	}
	if err := within("reservedMemory", len(in.ReservedMemory), topo.MaxNUMAs); err != nil {
		return err
	}
	type reservation struct {
		numa int32
		kind string
	}
	seen := map[reservation]bool{}
	for _, x := range in.ReservedMemory {
		if x.NumaNode < 0 || !idset.Valid(int(x.NumaNode)) {
			return fmt.Errorf("reservedMemory: NUMA node %d is outside 0..%d", x.NumaNode, idset.Max)
		}
		var part []place.Reserved
		for kind, q := range x.Limits {
			k, err := memoryKind(string(kind))
			if err != nil {
				return fmt.Errorf("reservedMemory: NUMA node %d: %w", x.NumaNode, err)
			}
			if seen[reservation{x.NumaNode, k}] {
				return fmt.Errorf("reservedMemory: NUMA node %d: %s is there twice", x.NumaNode, k)
			}
			seen[reservation{x.NumaNode, k}] = true
			if q.Sign() < 0 || q.CmpInt64(topo.MaxBytes) > 0 {
				return fmt.Errorf("reservedMemory: NUMA node %d: %s: %s is outside 0..1Pi", x.NumaNode, k, q.String())
			}
			part = append(part, place.Reserved{NUMA: idset.NUMA(x.NumaNode), Kind: k, Bytes: q.Value()})
		}
		r.Reserved = append(r.Reserved, part...)
	}
	slices.SortFunc(r.Reserved, func(a, b place.Reserved) int {
		return cmp.Or(cmp.Compare(a.NUMA, b.NUMA), strings.Compare(a.Kind, b.Kind))
	})
	if r.Static && len(r.Reserved) == 0 {
		return fmt.Errorf("memoryManagerPolicy: Static needs reservedMemory")
	}
	return nil
}

// memoryKind parses the name of a memory resource. It writes page sizes in the form that topo uses, so that equal
// sizes have equal names.
func memoryKind(s string) (string, error) {
	if s == topo.Memory {
		return s, nil
	}
	size, ok := strings.CutPrefix(s, "hugepages-")
	n, err := topo.ParseBytes(size)
	if !ok || err != nil || n == 0 {
		return "", fmt.Errorf("kind %q is neither %q nor a hugepages resource", clip(s), topo.Memory)
	}
	return topo.Hugepages{PageSize: n}.Kind(), nil
}
