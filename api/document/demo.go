package document

// Demo has the results of "tenon-lab demo", by acts. An act that was not played is nil.
type Demo struct {
	Story   *DemoStory   `json:"story,omitempty"`
	Busy    *DemoBusy    `json:"busy,omitempty"`
	Waiting *DemoWaiting `json:"waiting,omitempty"`
	Packing *DemoPacking `json:"packing,omitempty"`
	Claims  *DemoClaims  `json:"claims,omitempty"`
	Volcano *DemoVolcano `json:"volcano,omitempty"`
}

// DemoStory is the act about single pods: the outcomes of the same pods under each scheduler.
type DemoStory struct {
	Pods []DemoPod `json:"pods"`
}

// DemoPod is one pod under each scheduler.
type DemoPod struct {
	Name  string     `json:"name"`
	Wants string     `json:"wants"`
	Fates []DemoFate `json:"fates"`
}

// Under returns the outcome of the pod under a scheduler; an empty one if it was not run.
func (p DemoPod) Under(scheduler string) DemoFate {
	for _, f := range p.Fates {
		if f.Scheduler == scheduler {
			return f
		}
	}
	return DemoFate{Scheduler: scheduler}
}

// DemoFate is the outcome of a pod under a scheduler.
type DemoFate struct {
	Scheduler string `json:"scheduler"`
	// Node is the last node that the pod was bound to, empty if there was none.
	Node    string `json:"node,omitempty"`
	Running bool   `json:"running"`
	// Refusals is how often a kubelet refused the pod; Reason and Message are the last ones.
	Refusals int    `json:"refusals"`
	Reason   string `json:"reason,omitempty"`
	Message  string `json:"message,omitempty"`
	// Holds are the holdings of a running pod, as text.
	Holds string `json:"holds,omitempty"`
}

// DemoBusy is the act about a busy cluster: the same pods in the same order, for several seeds of that order.
type DemoBusy struct {
	Nodes  int         `json:"nodes"`
	Rounds []DemoRound `json:"rounds"`
}

// DemoRound has the results of one seed under one scheduler.
type DemoRound struct {
	Seed      uint64 `json:"seed"`
	Scheduler string `json:"scheduler"`
	// Asked counts the pods that were created, Running the pods that run in the end, and Pending the pods without a
	// node in the end.
	Asked   int `json:"asked"`
	Running int `json:"running"`
	// Refused counts refusals by kubelets by their reason; GaveUp counts the pods that were refused at every try.
	Refused map[string]int `json:"refused"`
	GaveUp  int            `json:"gaveUp"`
	Pending int            `json:"pending"`
	// LastBound is the time from the creation of the first pod until the last one was bound.
	LastBound float64 `json:"lastBoundSeconds"`
	// IdleGPUs and IdleFunctions count the GPUs and network functions that are free although pods that request such
	// devices do not run.
	IdleGPUs      int64 `json:"idleGPUs"`
	IdleFunctions int64 `json:"idleNetworkFunctions"`
	// Predicted counts the pods whose holdings Tenon predicted, and Wrong the pods among them that got something else.
	Predicted int `json:"predicted"`
	Wrong     int `json:"wrong"`
}

// Refusals returns the sum of Refused.
func (r DemoRound) Refusals() (n int) {
	for _, k := range r.Refused {
		n += k
	}
	return n
}

// DemoWaiting is the act about a pod that waits.
type DemoWaiting struct {
	Pod string `json:"pod"`
	// Why is the output of "kubectl tenon explain pod" while the pod waits, After the output once it runs.
	Why   string `json:"why"`
	After string `json:"after"`
	// Ends is the pod on Node whose end makes room. Seconds is how long the waiting pod took to run after that end.
	Ends    string  `json:"ends"`
	Node    string  `json:"node"`
	Seconds float64 `json:"seconds"`
}

// DemoPacking is the act about many machines, which are simulated. Jobs arrive twice: once none of them ends, and once
// they come and go.
type DemoPacking struct {
	Source   string `json:"source"`
	Machines int    `json:"machines"`
	GPUs     int64  `json:"gpus"`
	Seed     uint64 `json:"seed"`
	// Sizes are the kinds of jobs. Asked is the number of jobs of all kinds that arrive where none ends, ComeAndGo where
	// they come and go.
	Sizes      []DemoSize      `json:"sizes"`
	Asked      int             `json:"asked"`
	ComeAndGo  int             `json:"comeAndGo"`
	Schedulers []DemoContender `json:"schedulers"`
}

// DemoSize is a kind of job: the GPUs that it requests, and how many such jobs arrive where none ends.
type DemoSize struct {
	GPUs    int64 `json:"gpus"`
	Arrived int   `json:"arrived"`
}

// DemoContender is the result of one way to choose nodes.
type DemoContender struct {
	Name string `json:"name"`
	// Where no job ends: First is how many were placed before the first one waited, Placed how many in all, and BySize
	// the same by the indices of Sizes. GivenGPUs counts the GPUs of placed jobs, IdleGPUs those that are free although
	// waiting jobs request as many. Refused counts refusals by kubelets.
	First     int   `json:"placedBeforeOneWaits"`
	Placed    int   `json:"placed"`
	BySize    []int `json:"placedBySize"`
	GivenGPUs int64 `json:"givenGPUs"`
	IdleGPUs  int64 `json:"idleGPUs"`
	Refused   int   `json:"refused"`
	// Where jobs come and go: refusals by kubelets, jobs that waited, and the mean wait of all jobs, in seconds.
	RefusedLater int     `json:"refusedComeAndGo"`
	Waited       int     `json:"waitedComeAndGo"`
	MeanWait     float64 `json:"meanWaitSecondsComeAndGo"`
}

// DemoClaims is the act about devices from claims: the same pods in the same order, for several seeds of that order.
type DemoClaims struct {
	Nodes  int               `json:"nodes"`
	Rounds []DemoClaimsRound `json:"rounds"`
}

// DemoClaimsRound has the results of one seed under one scheduler.
type DemoClaimsRound struct {
	Seed      uint64 `json:"seed"`
	Scheduler string `json:"scheduler"`
	// Asked counts the pods that were created. Aligned counts those that run with all devices on the NUMA nodes of their
	// CPUs and memory, or without devices; Apart those that run with devices elsewhere; Waiting the others.
	Asked   int `json:"asked"`
	Aligned int `json:"aligned"`
	Apart   int `json:"apart"`
	Waiting int `json:"waiting"`
	// Refusals counts refusals by kubelets; a pod can be refused several times.
	Refusals int `json:"refusals"`
	// Example says where the CPUs and the devices of one of the pods in Apart are; empty if there is none.
	Example string `json:"example,omitempty"`
}

// DemoVolcano is the act about Volcano. It has the same gangs in the same order, for several seeds, under Volcano's
// scheduler with its plugin numa-aware and with the plugin tenon.
type DemoVolcano struct {
	Nodes  int         `json:"nodes"`
	Rounds []DemoGangs `json:"rounds"`
}

// DemoGangs has the results of one seed with one plugin.
type DemoGangs struct {
	Seed   uint64 `json:"seed"`
	Plugin string `json:"plugin"`
	Gangs  int    `json:"gangs"`
	Tasks  int    `json:"tasks"`
	// Whole counts the gangs that run with all their tasks, and TasksOfWhole these tasks. Waiting counts the gangs
	// without a task on a node, and Partial the gangs with only some tasks on nodes. GaveUp counts the gangs that
	// Volcano has given up after their last restart.
	Whole        int `json:"whole"`
	TasksOfWhole int `json:"tasksOfWhole"`
	Waiting      int `json:"waiting"`
	Partial      int `json:"partial"`
	GaveUp       int `json:"gaveUp"`
	// Refused counts, by reason, the tasks that kubelets refused.
	Refused map[string]int `json:"refused"`
	// StrandedGPUs counts the GPUs that are not held by a gang that runs as a whole, although other gangs request as
	// many.
	StrandedGPUs int64 `json:"strandedGPUs"`
	// Confirmed and Wrong count predictions of Tenon.
	Confirmed int `json:"confirmed"`
	Wrong     int `json:"wrong"`
}

// Refusals returns the sum of Refused.
func (g DemoGangs) Refusals() (n int) {
	for _, k := range g.Refused {
		n += k
	}
	return n
}
