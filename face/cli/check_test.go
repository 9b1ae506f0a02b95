package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const checkMachine = "numa 0 socket 0 cpus 0-7 memory 16Gi\nnuma 1 socket 1 cpus 8-15 memory 16Gi\n"

const checkKubelet = `
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
reservedSystemCPUs: "0"
topologyManagerPolicy: single-numa-node
`

// checks runs check on a described machine, and returns what it wrote and its exit code.
func checks(t *testing.T, pods string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{"pods.yaml": pods, "m.txt": checkMachine, "k.yaml": checkKubelet} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out, errs bytes.Buffer
	args = append([]string{"check", "-f", filepath.Join(dir, "pods.yaml"), "--machine", filepath.Join(dir, "m.txt"),
		"--kubelet-config", filepath.Join(dir, "k.yaml")}, args...)
	code = Run(t.Context(), args, &out, &errs, Setup{Stages: stages(nil)})
	if !strings.Contains(strings.Join(args, " "), "json") {
		checkWidth(t, out.String())
	}
	return out.String(), errs.String(), code
}

func TestCheckSaysWhetherPodsCanEverRun(t *testing.T) {
	const form = `
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {containers: [{name: c, image: i, resources: RESOURCES}]}
`
	for resources, want := range map[string]struct {
		code int
		says string
	}{
		`{limits: {cpu: 4, memory: 1Gi}}`: {0, "Pod default/p: Fits now on 1 of 1 node.\n" +
			"  It can run on 1 of 1 node; there is room for a pod of it on 1 now.\n"},
		`{limits: {cpu: 9, memory: 1Gi}}`: {1, `Pod default/p: Never here: container "c" wants 9 cpu on one NUMA node; the largest has 8 (node m); 8
  cpu would fit on the empty node.
  It cannot run on the only node.
  node m:
    never on this machine: container "c" wants 9 cpu on one NUMA node; the largest has 8
      Remedy: ask for at most 8 cpu, or use a node whose policy allows more NUMA nodes
`},
		`{requests: {cpu: 2, memory: 1Gi}}`: {0, `Warning: it is Burstable, so no kubelet aligns its CPUs and memory (container "c" has no limit for
    cpu and memory); give each container limits for cpu and memory, equal to its requests.`},
		`{limits: {cpu: 1500m, memory: 1Gi}}`: {0, `Warning: container "c" wants 1500m CPUs, no whole number`},
		`{limits: {cpu: 1, memory: -1}}`:      {2, ""},
	} {
		out, errs, code := checks(t, strings.Replace(form, "RESOURCES", resources, 1))
		if code != want.code || !strings.Contains(out, want.says) || (code == 2) != (errs != "") {
			t.Errorf("%s: exit code %d, want %d\n%s%s", resources, code, want.code, out, errs)
		}
		text, _, _ := checks(t, strings.Replace(form, "RESOURCES", resources, 1), "-o", "json")
		var doc checkDocument
		if code != 2 && (json.Unmarshal([]byte(text), &doc) != nil || doc.Passes != (code == 0)) {
			t.Errorf("%s: %s", resources, text)
		}
	}
}

// Under full-pcpus-only, pods lose the whole core if one of its threads is reserved. check warns of that, whether the
// configuration reserves a list of CPUs or an amount.
func TestLostHalvesOfCoresAreWarnedOf(t *testing.T) {
	const static = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncpuManagerPolicy: static\n"
	const whole = "cpuManagerPolicyOptions: {full-pcpus-only: 'true'}\n"
	const one = "machine m: reservedSystemCPUs: 1 CPU "
	for config, want := range map[string]string{
		static + whole + "reservedSystemCPUs: '0-1,8'\n": one + "(9) is on a core with reserved",
		static + whole + "systemReserved: {cpu: '1'}\n":  one + "(8) is on a core with reserved",
		static + whole + "reservedSystemCPUs: '0,8'\n":   "",
		static + "reservedSystemCPUs: '0'\n":             "",
	} {
		dir := t.TempDir()
		for name, text := range map[string]string{"k.yaml": config,
			"m.txt":    "numa 0 socket 0 cpus 0-7/8-15 memory 16Gi\n",
			"pod.yaml": "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: i}]}\n"} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for command, flag := range map[string]string{"check": "--machine", "simulate": "--machines"} {
			var out, errs bytes.Buffer
			code := Run(t.Context(), []string{command, "-f", filepath.Join(dir, "pod.yaml"), flag,
				filepath.Join(dir, "m.txt"), "--kubelet-config", filepath.Join(dir, "k.yaml")}, &out, &errs,
				Setup{Stages: stages(nil)})
			if code != 0 || !strings.Contains(errs.String(), want) || (want == "") != (errs.Len() == 0) {
				t.Errorf("%s with\n%s: exit code %d, %s", command, config, code, errs.String())
			}
		}
	}
}

func TestCheckWarnsOfMisspeltNames(t *testing.T) {
	const pods = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: d}
spec:
  selector: {matchLabels: {app: d}}
  template:
    metadata: {labels: {app: d}, annotations: {tenon.sh/numa-polcy: single-numa-node}}
    spec: {schedulerName: tenon-schedular, containers: [{name: c, image: i}]}
`
	out, errs, code := checks(t, pods)
	for _, want := range []string{`Deployment default/d: Perhaps a wrong name: no scheduler named "tenon-schedular" is known;`,
		"Warning: nothing reads the annotation tenon.sh/numa-polcy; tenon.sh/numa-policy may be",
		`Warning: no scheduler named "tenon-schedular" is known; tenon-scheduler may be meant.`} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("exit code %d, %s%s\nwant %q", code, out, errs, want)
		}
	}
}

// Where the kubelet gives whole cores only, check proposes only CPU numbers that are whole cores.
func TestCheckProposesNumbersOfCPUsThatAreAdmitted(t *testing.T) {
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: i, resources: " +
		"{limits: {cpu: 2500m, memory: 1Gi}}}]}\n"
	for options, want := range map[string]string{"": "ask for 2 or 3.",
		"cpuManagerPolicyOptions: {full-pcpus-only: 'true'}\n": "ask for 2 or 4."} {
		dir := t.TempDir()
		machine, config := filepath.Join(dir, "smt.txt"), filepath.Join(dir, "smt.yaml")
		for file, text := range map[string]string{machine: "numa 0 socket 0 cpus 0-7/8-15 memory 16Gi\n",
			config: strings.Replace(checkKubelet, `"0"`, `"0,8"`, 1) + options, dir + "/pod.yaml": pod} {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var out, errs bytes.Buffer
		Run(t.Context(), []string{"check", "-f", dir + "/pod.yaml", "--machine", machine, "--kubelet-config", config},
			&out, &errs, Setup{Stages: stages(nil)})
		if !strings.Contains(strings.Join(strings.Fields(out.String()), " "), want) {
			t.Errorf("%q: %s%s, want %q", options, out.String(), errs.String(), want)
		}
	}
}

// The API server refuses a Deployment whose selector does not select its own pods, so no pod of it will ever run.
func TestObjectsThatTheAPIServerRefuses(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"m.txt": checkMachine, "k.yaml": checkKubelet, "web.yaml": `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: other}}
    spec: {containers: [{name: c, image: i}]}
`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		command, flag, says string
		code                int
	}{
		{"check", "--machine", "Deployment default/web: the API server refuses it", ExitError},
		{"simulate", "--machines", "the API server refuses Deployment default/web", 0}, // a sketch is counted
	} {
		var out, errs bytes.Buffer
		code := Run(t.Context(), []string{c.command, "-f", filepath.Join(dir, "web.yaml"), c.flag,
			filepath.Join(dir, "m.txt"), "--kubelet-config", filepath.Join(dir, "k.yaml")}, &out, &errs,
			Setup{Stages: stages(nil)})
		if code != c.code || !strings.Contains(errs.String(), c.says) {
			t.Errorf("%s: exit code %d, %s%s", c.command, code, out.String(), errs.String())
		}
	}
}

func TestCheckNeedsAFile(t *testing.T) {
	for _, args := range [][]string{{"check"}, {"check", "--no-such-flag"}, {"check", "-f", "/no/such/file"}} {
		var out, errs bytes.Buffer
		if code := Run(t.Context(), args, &out, &errs, Setup{Stages: stages(nil)}); code != 2 || errs.Len() == 0 {
			t.Errorf("%v: exit code %d, %s", args, code, errs.String())
		}
	}
}

func TestKustomizationsHaveAnotherWay(t *testing.T) {
	for args, want := range map[string]string{
		"check -k overlay":               "kubectl kustomize DIR | kubectl tenon check -f -",
		"simulate -k overlay":            "kubectl kustomize DIR | kubectl tenon simulate -f -",
		"simulate --kustomize=overlay":   "kubectl kustomize DIR | kubectl tenon simulate -f -",
		"check --no-such-flag=kustomize": "unknown flag: --no-such-flag\n",
	} {
		var out, errs bytes.Buffer
		if code := Run(t.Context(), strings.Fields(args), &out, &errs, Setup{Stages: stages(nil)}); code == 0 ||
			!strings.Contains(errs.String(), want) {
			t.Errorf("%s: exit code %d, %s; want %q", args, code, errs.String(), want)
		}
	}
}

// A file passes only if all its pods are judged. check skips neither the pods of a known operator nor a virtual machine
// that stand beside other objects.
func TestCheckPassesNoFileWithUnjudgedPods(t *testing.T) {
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {containers: [{name: c, image: i}]}\n---\n"
	const config = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: script}\n---\n"
	const vm = "apiVersion: kubevirt.io/v1\nkind: VirtualMachine\nmetadata: {name: big}\nspec: {template: {spec: " +
		"{domain: {}}}}\n"
	job := func(cpus int) string {
		return fmt.Sprintf("apiVersion: kubeflow.org/v1\nkind: PyTorchJob\nmetadata: {name: hello}\nspec: "+
			"{pytorchReplicaSpecs: {Worker: "+
			"{template: {spec: {containers: [{name: c, image: i, resources: {limits: {cpu: %d, memory: 1Gi}}}]}}}}}\n", cpus)
	}
	for text, want := range map[string]struct {
		code      int
		says      string
		notJudged int
	}{
		pod + config + vm: {3, "not judged: document 3: VirtualMachine big (kubevirt.io/v1): ", 1},
		config + vm:       {2, "no pods that can be judged: document 2: VirtualMachine big", 0},
		config + job(4):   {0, "PyTorchJob default/hello-worker: Fits now on 1 of 1 node", 0},
		config + job(9):   {1, "PyTorchJob default/hello-worker: Never here: container", 0},
	} {
		out, errs, code := checks(t, text)
		if code != want.code || !strings.Contains(out+errs, want.says) {
			t.Errorf("%s\nexit code %d, want %d and %q\n%s%s", text, code, want.code, want.says, out, errs)
		}
		out, _, _ = checks(t, text, "-o", "json")
		var doc checkDocument
		if code != 2 && (json.Unmarshal([]byte(out), &doc) != nil || doc.Passes != (code == 0) ||
			len(doc.NotJudged) != want.notJudged) {
			t.Errorf("%s\n%s", text, out)
		}
	}
}
