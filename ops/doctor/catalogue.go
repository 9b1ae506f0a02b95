package doctor

import (
	"maps"
	"slices"

	"github.com/tenon-numa/tenon/api/document"
)

// docs is where remedies point to.
const docs = document.Docs

// Page explains every finding.
const Page = docs + "reference/findings.md"

// unknownReason is the id of findings for reasons that this release does not know. Agents of later releases report
// such reasons.
const unknownReason = "inexact"

// entry is the common part of all findings with one id. If remedy is "", each finding brings its own. commands
// contain NODE, NAMESPACE and POD where the names of an object are inserted.
type entry struct {
	severity document.Severity
	remedy   string
	commands []string
}

// catalogue has every finding by id. Findings about kubelets' settings, inexact nodes and restarts have the codes of
// NodeLayouts, events and metrics as ids.
var catalogue = map[string]entry{
	// The installation.
	"definition-missing": {document.Broken, "install the definition of NodeLayout, then the agents write their layouts",
		[]string{"kubectl apply -k deploy/crd"}},
	"definition-outdated": {document.Warned, "install the definition of this release: the API server drops fields " +
		"that it " +
		"does not have", []string{"kubectl apply -k deploy/crd"}},
	"rights-missing": {document.Broken, "apply the roles of this release",
		[]string{"kubectl apply -f deploy/agent/access.yaml -f deploy/scheduler/access.yaml"}},
	"policy-missing": {document.Warned, "apply the admission policy: without it an agent may write layouts of " +
		"other nodes",
		[]string{"kubectl apply -k deploy/policy"}},
	"scheduler-missing": {document.Broken, "start tenon-scheduler, or a kube-scheduler with the plugin",
		[]string{"kubectl get pods -n tenon-system", "kubectl get leases -A"}},
	"leader-missing": {document.Broken, "see why no scheduler renews its lease: pods without a node wait",
		[]string{"kubectl logs -n tenon-system deploy/tenon-scheduler --tail 50"}},
	"foreign-scheduler": {document.Warned, "let one scheduler place all pods that need alignment: set their " +
		"schedulerName, " +
		"or keep the other scheduler away from these nodes by a taint", nil},
	"agent-missing": {document.Broken, "see why no agent reports: its pod on the node, taints, the node selector " +
		"of its " +
		"DaemonSet", []string{"kubectl get pods -n tenon-agents -o wide"}},
	"agent-not-ready": {document.Broken, "see the log of the agent and its events",
		[]string{"kubectl get pods -n tenon-agents -o wide", "kubectl logs -n NAMESPACE POD --tail 50"}},
	"version-skew": {document.Warned, "upgrade agents and scheduler to the same release (" + docs +
		"howto/upgrade.md)", nil},
	"amounts-only": {document.Noted, "run the agent on the node: a NodeResourceTopology has amounts, and no CPUs", nil},
	"topology-foreign": {document.Warned, "let one program write the node's NodeResourceTopology: remove the other " +
		"exporter, or turn that of the agent off", []string{"kubectl get noderesourcetopologies NODE " +
		"--show-managed-fields -o yaml"}},

	// Reports of nodes.
	"topology-refused": {document.Broken, "correct the program that writes the object, which the message names with the " +
		"fault, or run the agent on the node", []string{"kubectl get noderesourcetopologies,numatopologies NODE " +
		"--show-managed-fields -o yaml"}},
	"layout-refused": {document.Broken, "upgrade the agent and the scheduler to the same release; see what the " +
		"message names",
		[]string{"kubectl get nodelayouts NODE -o yaml"}},
	"report-overdue": {document.Broken, "see whether the agent of the node runs, and whether it may write " +
		"(" + docs + "howto/runbooks/nodes-silent.md)", []string{"kubectl get pods -n tenon-agents -o wide"}},
	"pods-unlisted": {document.Warned, "see the log of the node's agent, and the pods: other pods no longer wait for " +
		"them, and count what was predicted for them as held", []string{"kubectl logs -n tenon-agents POD --tail 50"}},
	"pods-gone": {document.Warned, "see on the node whether their containers run; if not, restart the agent, then the " +
		"kubelet. Nothing else is given what they may hold", []string{"kubectl logs -n tenon-agents POD --tail 50"}},
	"report-awaited": {document.Noted, "wait a minute: then other pods no longer wait for the report of the node's agent",
		nil},
	"layout-stale": {document.Warned, "restart the agent of the node: its layout is of another release of the " +
		"kubelet than " +
		"the node", nil},
	"unknown-kubelet-version": {document.Warned, "use a release of the kubelet that this release of Tenon models", nil},
	"unmodelled-feature-gate": {document.Warned, "set the feature gate to its default", nil},
	"unhealthy-devices": {document.Warned, "see the device plugin and its devices: the kubelet counts " +
		"unhealthy ones", nil},
	"rules-from-files": {document.Warned, "let the agent read the kubelet's /configz: files lack the kubelet's flags " +
		"(" + docs + "reference/agent.md)", nil},
	"kubelet-unusable": {document.Broken, "change the kubelet's configuration: on this machine its managers fail",
		nil},
	"release-order": {document.Noted, "wait until the memory manager has released the memory of ended pods", nil},
	"holdings-omitted": {document.Warned, "see the pod that the message names: what the kubelet lists contradicts " +
		"the machine", nil},
	"device-locality": {document.Warned, "see the device plugin: for a device without a NUMA node it has to announce " +
		"no list, and not -1", nil},
	"devices-omitted": {document.Warned, "have the device plugin announce fewer, larger devices: pods that request this " +
		"resource are placed by plain amounts alone, and its NUMA nodes are not predicted", nil},
	"state-inconsistent": {document.Broken, "drain the node, stop the kubelet, remove the state file that the " +
		"message names, " +
		"start the kubelet (" + docs + "howto/change-a-kubelet-policy.md)",
		[]string{"kubectl drain NODE --ignore-daemonsets"}},
	"stale-facts": {document.Warned, "see the log of the agent: machine or rules could not be read again", nil},
	"machine-changed": {document.Broken, "undo the change, or drain the node and restart its kubelet, which decides " +
		"by the machine of its start; where it does not start, remove the state files that its log names",
		[]string{"kubectl drain NODE --ignore-daemonsets"}},
	"pods-unreported": {document.Broken, "see whether the agent of the node runs: pods are bound to it, and no " +
		"report has them", nil},
	"report-contradicted": {document.Broken, "see the agents of both nodes: one reports pods that run on the " +
		"other", nil},
	unknownReason: {document.Warned, "see the message; the agent is newer than this program", nil},

	// Kubelets' settings.
	"shared-cpus":     {document.Warned, "", nil},
	"memory-anywhere": {document.Warned, "", nil},
	"managers-apart":  {document.Warned, "", nil},
	"no-reserved-cpus": {document.Warned, "set reservedSystemCPUs: the kubelet, the runtime and interrupts need " +
		"CPUs that no " +
		"container has", nil},
	"memory-reservation": {document.Broken, "set reservedMemory so that its sum is systemReserved, kubeReserved " +
		"and the hard " +
		"eviction threshold of memory together: otherwise the kubelet does not start again", nil},
	"kubelet-start": {document.Broken, "change the kubelet's configuration: with what its files say it does not start " +
		"again, or counts wrongly", nil},
	"half-cores":          {document.Warned, "", nil},
	"reserved-cpus-given": {document.Warned, "", nil},
	"reserved-cpus-shared": {document.Noted, "set the option strict-cpu-reservation of cpuManagerPolicyOptions where " +
		"the system needs these CPUs for itself (" + docs + "howto/strict-cpu-reservation.md)", nil},
	"hugepages-uncounted": {document.Warned, "make the pods Guaranteed: the memory manager counts pages of Guaranteed " +
		"pods only, and admits others onto pages that are in use", nil},
	"node-lost": {document.Warned, "see the log of the kubelet: after a boot the amounts of memory may differ from its " +
		"state file, and it does not start; remove memory_manager_state, and add nokaslr to the kernel's command line",
		[]string{"kubectl describe node NODE"}},
	"hugepages-uneven": {document.Warned, "allocate hugepages on every NUMA node: pods that want them find them on " +
		"one only",
		[]string{"cat /sys/devices/system/node/node*/hugepages/hugepages-*/nr_hugepages"}},
	"hugepages-missing": {document.Warned, "", nil},
	"devices-without-locality": {document.Warned, "see whether the device plugin reports NUMA nodes, and whether " +
		"the firmware " +
		"does: /sys/bus/pci/devices/*/numa_node is -1 where it does not", nil},
	"numa-balancing": {document.Noted, "turn it off where pods are pinned: they gain nothing, and pay for the faults",
		[]string{"sysctl kernel.numa_balancing=0"}},
	"firmware": {document.Warned, "see the message; an update of the firmware, or one of its NUMA settings, may mend " +
		"it. Tenon follows what the kubelet makes of it", nil},
	"gpu-memory-numa": {document.Noted, "keep pods off the memory of GPUs: reserve it by reservedMemory, since the " +
		"kubelet " +
		"counts it as memory of the node", nil},

	// Devices from claims (DRA).
	"slices-faulty": {document.Warned, "see the driver that the message names", []string{"kubectl get resourceslices " +
		"--field-selector spec.nodeName=NODE"}},
	"claim-devices-without-locality": {document.Warned, "use a release of the driver that publishes the attribute " +
		"resource.kubernetes.io/numaNode; until then nobody can align its devices",
		[]string{"kubectl get resourceslices --field-selector spec.nodeName=NODE -o yaml"}},
	"cpus-given-twice": {document.Broken, "set the kubelet's cpuManagerPolicy to none where dra-driver-cpu runs " +
		"(" + docs + "howto/change-a-kubelet-policy.md)", nil},
	"resource-from-claims": {document.Warned, "keep pods that need the resource beside their CPUs on nodes with the " +
		"device plugin by a node selector, or take extendedResourceName out of the DeviceClass",
		[]string{"kubectl get deviceclasses -o yaml"}},
	"claim-misaligned": {document.Warned, "create the pod again while a node has devices free beside its CPUs; a " +
		"matchAttribute of resource.kubernetes.io/numaNode in the claim keeps its devices together",
		[]string{"kubectl get resourceclaims -n NAMESPACE -o yaml"}},

	// Restarts of kubelets.
	"no-shared-cpu":         {document.Broken, "", nil},
	"reserved-cpu-held":     {document.Broken, "", nil},
	"memory-state":          {document.Warned, "", nil},
	"smt-readmission":       {document.Warned, "", nil},
	"topology-readmission":  {document.Warned, "", nil},
	"pod-level-readmission": {document.Warned, "", nil},
	"init-devices":          {document.Warned, "", nil},
	"stopped-devices":       {document.Warned, "", nil},
	"status-readmission":    {document.Warned, "", nil},
	"resize-readmission":    {document.Warned, "", nil},

	// Pods.
	"never-admitted": {document.Broken, "", nil},
	"scheduler-misnamed": {document.Warned, "create the pod with another schedulerName, or make sure that a scheduler " +
		"of that name runs", []string{"kubectl tenon explain pod NAMESPACE/POD"}},
	"nearly-guaranteed": {document.Warned, "", nil},
	"gang-not-enforced": {document.Warned, "let the scheduler that has these gangs place the pods, or put them into a " +
		"PodGroup of Kubernetes 1.37 (" + docs + "design/order.md#gangs)", nil},
	"odd-cpus": {document.Warned, "ask for whole cores: full-pcpus-only refuses other numbers of CPUs with " +
		"SMTAlignmentError", nil},
	"misaligned": {document.Warned, "create the pod again while a node has room for it",
		[]string{"kubectl tenon pods --misaligned -A"}},
	"kubelet-refused": {document.Broken, "delete the pod: it does not run again; let Tenon place the next one " +
		"(schedulerName, and no nodeName)",
		[]string{"kubectl tenon explain pod NAMESPACE/POD"}},
}

// IDs returns the ids of all findings in ascending order.
func IDs() []string { return slices.Sorted(maps.Keys(catalogue)) }
