package document

// Severity is how bad a finding is.
type Severity string

// The severities, the worst first.
const (
	// Broken: something does not work, or pods fail.
	Broken Severity = "error"
	// Warned: something works, but not as people expect.
	Warned Severity = "warning"
	// Noted: nothing is wrong, but the fact is worth knowing.
	Noted Severity = "info"
)

// Rank orders severities, the worst first.
func (s Severity) Rank() int {
	return map[Severity]int{Broken: 0, Warned: 1, Noted: 2}[s]
}

// Diagnosis is what was found in a cluster, a node or a pod.
type Diagnosis struct {
	Kind     string    `json:"kind"`     // "Diagnosis"
	Findings []Finding `json:"findings"` // the worst first
	// Nodes and Pods count what was examined.
	Nodes int `json:"nodes"`
	Pods  int `json:"pods"`
	// Limits are what was not examined, and why.
	Limits []Limit `json:"limits"`
}

// Finding is one fault, with all objects that have it.
type Finding struct {
	// ID is stable: each has a section in docs/reference/findings.md.
	ID       string          `json:"id"`
	Severity Severity        `json:"severity"`
	Text     string          `json:"text"`
	Objects  []FindingObject `json:"objects"`
	// Remedy describes the change that helps, Commands make this change, and Page explains it.
	Remedy   string   `json:"remedy"`
	Commands []string `json:"commands,omitempty"`
	Page     string   `json:"page"`
}

// FindingObject is an object of a finding.
type FindingObject struct {
	Kind      string `json:"kind"` // Cluster, Node, or the kind of a pod's controller, or Pod
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	// Nodes and Pods are the nodes and pods that the finding is about, as "name" and "namespace/name".
	Nodes []string `json:"nodes,omitempty"`
	Pods  []string `json:"pods,omitempty"`
	// Evidence are the texts or values from which the finding follows.
	Evidence []string `json:"evidence,omitempty"`
}

// String names the object as kubectl does.
func (o FindingObject) String() string {
	switch {
	case o.Kind == "Cluster":
		return "cluster"
	case o.Namespace != "":
		return o.Kind + " " + o.Namespace + "/" + o.Name
	}
	return o.Kind + " " + o.Name
}
