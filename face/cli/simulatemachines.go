package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/yaml"

	"github.com/tenon-numa/tenon/api/pod/quantity"
	"github.com/tenon-numa/tenon/core/place"
	"github.com/tenon-numa/tenon/core/printable"
	"github.com/tenon-numa/tenon/core/state"
	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/core/whatif"
)

// maxConfig is the largest size of a KubeletConfiguration file, in bytes.
const maxConfig = 1 << 20

// described returns the machines in a list of FILE[=COPIES], with the rules of their kubelets. A machine from the
// catalogue has the configuration of the catalogue, unless --kubelet-config replaces it; other flags about the kubelet
// replace its fields. Warnings go to stderr.
func (a *app) described(f simulateFlags, list []string, stderr io.Writer) ([]whatif.Machine, error) {
	configs, err := f.kubeletConfigs(len(list))
	if err != nil {
		return nil, err
	}
	for _, c := range configs {
		if a.setup.Stages.Ignored == nil {
			break
		}
		for _, text := range a.setup.Stages.Ignored(c.text) {
			fmt.Fprintf(stderr, "Warning: %s, %s\n", c.from, text)
		}
	}
	var out []whatif.Machine
	for i, arg := range list {
		file, copies, err := machineCopies(arg)
		if err != nil {
			return nil, err
		}
		n, own, err := a.readListed(file, stderr)
		if err != nil {
			return nil, err
		}
		m := whatif.Machine{Name: n.Name, Machine: n.Machine, Copies: copies}
		config := configs[min(i, len(configs)-1)]
		fields := f.kubeletFlags()
		switch {
		case len(f.configs) > 0 || own == nil && fields != nil:
		case own == nil:
			fmt.Fprintf(stderr, "Warning: machine %s: no kubelet configuration is given, so its kubelet aligns nothing: "+
				"want --kubelet-config\n", n.Name)
		case fields == nil:
			config = kubeletConfig{"kubelet configuration of the catalogue", own}
		default:
			config.from += ", over the configuration of the catalogue,"
			if config.text, err = f.configuration(own, fields); err != nil {
				return nil, fmt.Errorf("%s for machine %s: %w", config.from, n.Name, err)
			}
		}
		if m.Rules, m.Allocatable, err = a.setup.Stages.Kubelet(config.text, n.Machine); err != nil {
			return nil, fmt.Errorf("%s for machine %s: %w", config.from, n.Name, err)
		}
		if lost, a := m.Rules.HalfCores(n.Machine); !lost.Empty() {
			fmt.Fprintf(stderr, "Warning: %s for machine %s: %s\n", config.from, n.Name, a)
		}
		out = append(out, m)
	}
	return out, nil
}

// readListed returns a node with the machine in a file. If there is no such file, it returns the machine of that name
// from the catalogue, and its configuration.
func (a *app) readListed(file string, stderr io.Writer) (*state.Node, []byte, error) {
	if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) && a.setup.Catalogue != nil {
		text, config, ok := a.setup.Catalogue(file)
		if !ok {
			return nil, nil, &noMachineError{file, a.setup.Catalogued}
		}
		n, err := a.parsed(file, text, stderr)
		return n, config, err
	}
	n, err := a.readMachine(file, stderr)
	return n, nil, err
}

// noMachineError is the error about a machine that is neither a file nor in the catalogue.
type noMachineError struct {
	file       string
	catalogued []string
}

func (e *noMachineError) Error() string {
	return fmt.Sprintf("there is no machine file %s, and no such machine in the catalogue%s", e.file,
		printable.Instead(e.file, e.catalogued))
}

// readRuled returns a node as readListed does. A node with a machine of the catalogue has the rules of its kubelet's
// configuration.
func (a *app) readRuled(file string, stderr io.Writer) (*state.Node, error) {
	n, config, err := a.readListed(file, stderr)
	if err != nil || config == nil || a.setup.Stages.Kubelet == nil {
		return n, err
	}
	if n.Rules, _, err = a.setup.Stages.Kubelet(config, n.Machine); err != nil {
		return nil, fmt.Errorf("kubelet configuration of machine %s of the catalogue: %w", file, err)
	}
	n.Usage = place.NewUsage(n.Machine, n.Rules)
	return n, nil
}

// machineCopies parses FILE, FILE=COPIES or FILE=min. copies is 0 for FILE=min.
func machineCopies(arg string) (file string, copies int, err error) {
	at := strings.LastIndexByte(arg, '=')
	if at < 0 {
		return arg, 1, nil
	}
	if arg[at+1:] == leastText {
		return arg[:at], 0, nil
	}
	if copies, err = strconv.Atoi(arg[at+1:]); err != nil || copies < 1 || copies > maxSimulated {
		return "", 0, fmt.Errorf("machine %q: want FILE, FILE=COPIES with 1..%d of them, or FILE=min", arg, maxSimulated)
	}
	return arg[:at], copies, nil
}

// kubeletConfig is a KubeletConfiguration and its source.
type kubeletConfig struct {
	from string
	text []byte
}

// kubeletConfigs returns the configurations that the flags give: one for all machines, or one for each.
func (f simulateFlags) kubeletConfigs(machines int) (out []kubeletConfig, err error) {
	own := f.kubeletFlags()
	switch n := len(f.configs); {
	case n > 0 && own != nil:
		return nil, fmt.Errorf("--kubelet-config and flags of the kubelet cannot both be given")
	case n > 1 && n != machines:
		return nil, fmt.Errorf("%d --kubelet-config for %d machines: want one for all, or one for each", n, machines)
	case n == 0:
		text, err := f.configuration(nil, own)
		return []kubeletConfig{{"flags of the kubelet", text}}, err
	}
	for _, file := range f.configs {
		text, err := readBounded(file, "kubelet configuration", maxConfig, strings.NewReader(""))
		if err != nil {
			return nil, err
		}
		out = append(out, kubeletConfig{"kubelet configuration " + file, text})
	}
	return out, nil
}

// kubeletFlags returns the flags about the kubelet as fields of a KubeletConfiguration; nil if none is given.
func (f simulateFlags) kubeletFlags() map[string]any {
	var out map[string]any
	for field, value := range map[string]string{
		"topologyManagerPolicy": f.policy, "topologyManagerScope": f.scope, "cpuManagerPolicy": f.cpuPolicy,
		"reservedSystemCPUs": f.reservedCPUs, "memoryManagerPolicy": f.memoryPolicy,
		"reservedMemory": f.reservedMemory,
	} {
		if value == "" {
			continue
		}
		if out == nil {
			out = map[string]any{}
		}
		out[field] = value
	}
	return out
}

// configuration makes a KubeletConfiguration from flags, over a given one, which may be nil. It removes from that one
// what would contradict the flags.
func (f simulateFlags) configuration(given []byte, fields map[string]any) ([]byte, error) {
	out := map[string]any{}
	if len(given) > 0 {
		if err := yaml.Unmarshal(given, &out); err != nil {
			return nil, err
		}
	}
	out["apiVersion"], out["kind"] = "kubelet.config.k8s.io/v1beta1", "KubeletConfiguration"
	maps.Copy(out, fields)
	if f.cpuPolicy == "none" {
		delete(out, "cpuManagerPolicyOptions")
	}
	if f.memoryPolicy == "None" && f.reservedMemory == "" {
		delete(out, "reservedMemory")
	}
	if f.reservedCPUs != "" { // they replace what is reserved by amount
		delete(amountsIn(out, "systemReserved"), "cpu")
		delete(amountsIn(out, "kubeReserved"), "cpu")
	}
	if f.reservedMemory != "" { // the kubelet requires that the sum is what is reserved in all
		numas, sum, err := reservedMemory(f.reservedMemory)
		if err != nil {
			return nil, err
		}
		out["reservedMemory"] = numas
		amountsIn(out, "systemReserved")[topo.Memory] = sum.String()
		delete(amountsIn(out, "kubeReserved"), topo.Memory)
		amountsIn(out, "evictionHard")["memory.available"] = "0%"
	}
	return json.Marshal(out)
}

// amountsIn returns the amounts in a field of a configuration, which it makes if there are none.
func amountsIn(config map[string]any, field string) map[string]any {
	amounts, ok := config[field].(map[string]any)
	if !ok {
		amounts = map[string]any{}
		config[field] = amounts
	}
	return amounts
}

// reservedMemory parses a value like that of the kubelet's --reserved-memory: NUMA:KIND=AMOUNT[,KIND=AMOUNT],
// separated by ";". sum is the memory of all NUMA nodes together, without hugepages.
func reservedMemory(text string) (out []map[string]any, sum resource.Quantity, err error) {
	for part := range strings.SplitSeq(text, ";") {
		numa, rest, ok := strings.Cut(part, ":")
		id, err := strconv.Atoi(numa)
		if !ok || err != nil {
			return nil, sum, fmt.Errorf("--reserved-memory: %q: want NUMA:KIND=AMOUNT", part)
		}
		limits := map[string]string{}
		for pair := range strings.SplitSeq(rest, ",") {
			kind, amount, ok := strings.Cut(pair, "=")
			q, err := resource.ParseQuantity(amount)
			if !ok || kind == "" || err != nil || !quantity.Within(q, topo.MaxBytes) {
				return nil, sum, fmt.Errorf("--reserved-memory: %q: want KIND=AMOUNT, at most %d bytes", pair, int64(topo.MaxBytes))
			}
			if limits[kind] = amount; kind == topo.Memory {
				sum.Add(q)
			}
		}
		out = append(out, map[string]any{"numaNode": id, "limits": limits})
	}
	return out, sum, nil
}
