// Command cadvisor prints as JSON what the kubelet's library finds on the machine that it runs on. Only tests of guests
// build it. It fails if the library cannot read the machine.
package main

import (
	"encoding/json"
	"os"

	"github.com/google/cadvisor/lib/utils/sysfs"
	"github.com/google/cadvisor/lib/utils/sysinfo"
	"k8s.io/klog/v2"
)

func main() {
	nodes, _, err := sysinfo.GetNodesInfo(sysfs.NewRealSysFs())
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(nodes)
	}
	if err != nil {
		klog.Exit(err)
	}
}
