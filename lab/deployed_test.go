package lab_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/tenon-numa/tenon/api/nrt"
	"github.com/tenon-numa/tenon/api/v1alpha1/client"
	"github.com/tenon-numa/tenon/deploy"
	"github.com/tenon-numa/tenon/lab"
	"github.com/tenon-numa/tenon/lab/rights"
)

// The agent's program publishes a real kubelet's data. It runs as the user in its manifest, without capabilities, with
// the manifest's arguments and its own token.
func TestAgentAsDeployed(t *testing.T) {
	why := ""
	if os.Getuid() != 0 {
		why = "only root can give capabilities up"
	} else if _, err := exec.LookPath("setpriv"); err != nil {
		why = err.Error()
	}
	switch {
	case why != "" && os.Getenv("CI") != "":
		t.Fatal(why)
	case why != "":
		t.Skip("NOT RUN: ", why)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	program := filepath.Join(t.TempDir(), "tenon-agent")
	build := exec.CommandContext(ctx, "go", "build", "-o", program, "../cmd/tenon-agent")
	build.Env = append(os.Environ(), "GOWORK=") // the agent is the same for clusters of all releases
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the agent: %v\n%s", err, out)
	}
	c, err := lab.Start(ctx, lab.Config{NoAgents: true, Nodes: []lab.Node{{Name: "own", Machine: "xeon-2s"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer stopped(t, c)
	said, end := runAgent(ctx, t, c, program)
	defer end() // before the API server, which waits for its watchers
	layouts, err := client.New(c.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	zones, err := nrt.NewClient(c.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	eventually(ctx, t, "the agent publishes", func() bool {
		_, layoutErr := layouts.Get(ctx, "own", metav1.GetOptions{})
		_, zonesErr := zones.Get(ctx, "own", metav1.GetOptions{})
		return layoutErr == nil && zonesErr == nil
	})
	// It follows the kubelet too, and no request is refused.
	user := through(t, c.KubeconfigPath)
	create(ctx, t, user, pod("dpdk", "own", whole))
	eventually(ctx, t, "the agent reports the pod", func() bool {
		l, err := layouts.Get(ctx, "own", metav1.GetOptions{})
		return err == nil && len(l.Holdings) == 1
	})
	text, err := os.ReadFile(said)
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"forbidden", "denied"} {
		if strings.Contains(strings.ToLower(string(text)), bad) {
			t.Errorf("the agent was refused something:\n%s", text)
		}
	}
}

// runAgent runs the agent's program for the node own. It returns its log file and a function that ends it.
func runAgent(ctx context.Context, t *testing.T, c *lab.Cluster, program string) (log string, end func()) {
	t.Helper()
	data, err := os.ReadFile("../deploy/agent/daemonset.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var d appsv1.DaemonSet
	if err := yaml.UnmarshalStrict(data, &d); err != nil {
		t.Fatal(err)
	}
	access, err := c.AgentConfig(ctx, "own")
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := rights.WriteKubeconfig(kubeconfig, deploy.Agent, access); err != nil {
		t.Fatal(err)
	}
	spec, root := d.Spec.Template.Spec, c.NodeDir("own")
	who := []string{fmt.Sprint("--reuid=", *spec.SecurityContext.RunAsUser),
		fmt.Sprint("--regid=", *spec.SecurityContext.RunAsGroup),
		"--clear-groups", "--no-new-privs", "--inh-caps=-all", "--bounding-set=-all"}
	// The lab's kubelet has its files elsewhere, and the machine is a described one.
	args := slices.Concat(who, []string{"--", program}, spec.Containers[0].Args, []string{
		"--kubeconfig=" + kubeconfig, "--kubelet-config=" + filepath.Join(root, "config.yaml"), "--state-dir=" + root,
		"--podresources-socket=" + filepath.Join(root, "pod-resources", "kubelet.sock"),
		"--machine=machines/xeon-2s.txt", "--machine-force", "--metrics-address=127.0.0.1:0", "--health-address=127.0.0.1:0"})
	log = filepath.Join(t.TempDir(), "log")
	file, err := os.Create(log)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	cmd := exec.Command("setpriv", args...)
	cmd.Env = append(os.Environ(), "NODE_NAME=own")
	cmd.Stdout, cmd.Stderr = file, file
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return log, func() {
		cmd.Process.Kill()
		cmd.Wait() // its error is that it was killed
		if t.Failed() {
			text, _ := os.ReadFile(log)
			t.Logf("the agent's log:\n%s", text)
		}
	}
}
