package document

import "github.com/tenon-numa/tenon/api/v1alpha1"

// SchedulingPolicy is the configuration of a cluster's schedulers and kubelets.
type SchedulingPolicy struct {
	Kind       string      `json:"kind"` // "SchedulingPolicy"
	Schedulers []Scheduler `json:"schedulers"`
	// Kubelets are the nodes that report, grouped by equal rules; the largest group first.
	Kubelets []KubeletGroup `json:"kubelets"`
	// Limits are the resources that you may not read.
	Limits []Limit `json:"limits"`
}

// KubeletGroup is nodes whose kubelets have the same rules.
type KubeletGroup struct {
	Rules v1alpha1.Rules `json:"rules"`
	Nodes []string       `json:"nodes"`
}

// SchedulerType is the type of a scheduler with a configuration.
type SchedulerType string

// The schedulers that have a configuration with a NUMA plugin.
const (
	KubeScheduler SchedulerType = "kube-scheduler"
	Volcano       SchedulerType = "volcano"
)

// Scheduler is a scheduler and its configuration.
type Scheduler struct {
	ID   string        `json:"id"` // NAMESPACE/NAME of the ConfigMap
	Type SchedulerType `json:"type,omitempty"`
	// Deployment is the Deployment that runs the scheduler, as NAMESPACE/NAME; absent if you may not read Deployments.
	Deployment string `json:"deployment,omitempty"`
	// Key is the configuration's key in the ConfigMap, and Version the ConfigMap's resourceVersion.
	Key     string `json:"key"`
	Version string `json:"version,omitempty"`
	// Plugin is the name of the NUMA plugin. Enabled is set if a profile has it.
	Plugin   string             `json:"plugin,omitempty"`
	Enabled  bool               `json:"enabled"`
	Profiles []SchedulerProfile `json:"profiles"`
	Text     string             `json:"text"`
	MayWrite bool               `json:"mayWrite"`
	// Problem is why the configuration cannot be read.
	Problem string `json:"problem,omitempty"`
}

// SchedulerProfile is the part of a configuration for one schedulerName.
type SchedulerProfile struct {
	SchedulerName string `json:"schedulerName"`
	Enabled       bool   `json:"enabled"`
	// Plugin is the name under which the profile has the plugin or arguments for it.
	Plugin   string `json:"plugin,omitempty"`
	Weight   int32  `json:"weight,omitempty"`
	Strategy string `json:"strategy,omitempty"`
	// Arguments are the arguments of the plugin in this profile.
	Arguments map[string]any `json:"arguments"`
}

// PluginChange is a requested change of a scheduler.
type PluginChange struct {
	Scheduler string // its ID; empty if there is only one
	On        bool
	// Version, if not empty, makes the change fail if the ConfigMap has another version.
	Version string
	// Profile chooses one of several profiles of a KubeSchedulerConfiguration. If it is empty, On applies to all
	// profiles with the plugin or arguments for it. Arguments then apply to the only profile that has arguments.
	Profile string
	// DryRun makes the API server check the change, and write nothing.
	DryRun bool
	// Arguments, if not nil, has the arguments of the plugin to change, and On is ignored. A nil value removes an
	// argument.
	Arguments map[string]any
}

// ArgumentChange is the body of a request that changes arguments of the plugin.
type ArgumentChange struct {
	// Arguments has the new values by name. Arguments that it does not name stay, and null removes an argument.
	Arguments map[string]any `json:"arguments"`
}

// SchedulerChange is the result of a change of a scheduler's configuration.
type SchedulerChange struct {
	Kind      string `json:"kind"`      // "SchedulerChange"
	Scheduler string `json:"scheduler"` // as Scheduler.ID
	Version   string `json:"version"`
	Changed   bool   `json:"changed"`
	DryRun    bool   `json:"dryRun"`
	// Diff, Reload and Warnings are as in NUMAAware.
	Diff     string   `json:"diff,omitempty"`
	Reload   string   `json:"reload,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
}

// PluginStatus is the body of a request that turns the plugin on or off.
type PluginStatus struct {
	Status string `json:"status"` // open turns the plugin on, close turns it off
}

// NUMAAware is the answer of /rest/scheduling/v1/numaaware. Code and Msg have the form of openFuyao.
type NUMAAware struct {
	Code int    `json:"Code"` // the status of the answer
	Msg  string `json:"Msg"`
	// Status is open if the plugin is on, and close if it is off.
	Status    string `json:"status,omitempty"`
	Scheduler string `json:"scheduler,omitempty"` // as Scheduler.ID
	Version   string `json:"version,omitempty"`
	Changed   bool   `json:"changed,omitempty"`
	DryRun    bool   `json:"dryRun,omitempty"`
	// Diff has the lines that change; Reload is how the scheduler gets the change.
	Diff   string `json:"diff,omitempty"`
	Reload string `json:"reload,omitempty"`
	// Warnings name the steps that failed.
	Warnings []string `json:"warnings,omitempty"`
}
