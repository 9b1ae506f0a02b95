package realnode

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/tenon-numa/tenon/core/idset"
)

// Process is the kernel's data about one process of a container.
type Process struct {
	PID int
	// PodUID and Container are the pod's UID and the container runtime's id of the container.
	PodUID, Container string
	// CPUs and Mems are what it may use: Cpus_allowed_list and Mems_allowed_list of /proc/PID/status.
	CPUs idset.Set[idset.CPU]
	Mems idset.Set[idset.NUMA]
	// Pages are its anonymous pages by NUMA node (/proc/PID/numa_maps).
	Pages map[idset.NUMA]int64
}

// Bounds on a guest's answers.
const (
	maxProcesses = 1 << 12
	maxPages     = 1 << 40
)

// listProcesses writes four lines for every process below the kubelet's cgroup. P has its id and cgroup, C and M the
// CPUs and NUMA nodes that it may use, N its anonymous pages by NUMA node. It omits lines of numa_maps with a file,
// because other processes share their pages.
const listProcesses = `for p in /proc/[0-9]*; do
	read -r group <$p/cgroup || continue
	case $group in 0::/kubepods/*) ;; *) continue ;; esac
	cpus=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' $p/status)
	mems=$(sed -n 's/^Mems_allowed_list:[[:space:]]*//p' $p/status)
	pages=$(awk '/ anon=/ && !/ file=/ {for (i = 3; i <= NF; i++) if ($i ~ /^N[0-9]+=/) {split($i, a, "="); n[a[1]] += a[2]}}
		END {for (k in n) printf "%s=%d ", k, n[k]}' $p/numa_maps)
	[ -n "$cpus" ] || continue
	printf 'P %s %s\nC %s\nM %s\nN %s\n' "${p#/proc/}" "${group#0::}" "$cpus" "$mems" "$pages"
done 2>/dev/null
true`

// Processes returns the processes of all containers, pause processes included, in ascending order of id.
func (n *Node) Processes(ctx context.Context) ([]Process, error) {
	out, err := n.guest.Run(ctx, listProcesses)
	if err != nil {
		return nil, fmt.Errorf("list processes of node %s: %w", n.Name, err)
	}
	ps, err := parseProcesses(out)
	if err != nil {
		return nil, fmt.Errorf("list processes of node %s: %w", n.Name, err)
	}
	return ps, nil
}

func parseProcesses(text string) ([]Process, error) {
	var out []Process
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimRight(line, "\n"), " ")
		if key == "P" {
			p, err := parseIdentity(value)
			if err != nil {
				return nil, err
			}
			if len(out) == maxProcesses {
				return nil, fmt.Errorf("more than %d processes", maxProcesses)
			}
			out = append(out, p)
			continue
		}
		if len(out) == 0 {
			return nil, fmt.Errorf("line %q belongs to no process", line)
		}
		if err := out[len(out)-1].set(key, value); err != nil {
			return nil, fmt.Errorf("process %d: %w", out[len(out)-1].PID, err)
		}
	}
	slices.SortFunc(out, func(a, b Process) int { return a.PID - b.PID })
	return out, nil
}

// parseIdentity parses "PID CGROUP". The kubelet's cgroups are /kubepods[/QOS]/podUID/CONTAINER; the UID keeps its
// dashes (driver cgroupfs).
func parseIdentity(text string) (Process, error) {
	id, group, ok := strings.Cut(text, " ")
	pid, err := strconv.Atoi(id)
	if !ok || err != nil || pid <= 0 {
		return Process{}, fmt.Errorf("process %q: want PID CGROUP", text)
	}
	uid, ok := strings.CutPrefix(path.Base(path.Dir(group)), "pod")
	if !ok || uid == "" {
		return Process{}, fmt.Errorf("process %d: cgroup %q is not that of a pod's container", pid, group)
	}
	return Process{PID: pid, PodUID: uid, Container: path.Base(group), Pages: map[idset.NUMA]int64{}}, nil
}

func (p *Process) set(key, value string) (err error) {
	switch key {
	case "C":
		p.CPUs, err = idset.Parse[idset.CPU](value)
	case "M":
		p.Mems, err = idset.Parse[idset.NUMA](value)
	case "N":
		for word := range strings.FieldsSeq(value) {
			var numa int
			var pages int64
			if n, _ := fmt.Sscanf(word, "N%d=%d", &numa, &pages); n != 2 || !idset.Valid(numa) || pages < 0 || pages > maxPages {
				return fmt.Errorf("pages %q: want Nnuma=pages", word)
			}
			p.Pages[idset.NUMA(numa)] = pages
		}
	default:
		return fmt.Errorf("line of kind %q is not known", key)
	}
	return err
}
