package cli

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/tenon-numa/tenon/cluster/kube"
	"github.com/tenon-numa/tenon/lab/machines"
)

// labelled is a cluster whose nodes gpu-a and gpu-c and whose pod split have labels.
type labelled struct{ named }

func (labelled) NodesWith(_ context.Context, selector string) ([]string, error) {
	return kube.Selected("node", selector, map[string]labels.Set{"gpu-a": {"pool": "gpu"}, "gpu-c": {"pool": "gpu"},
		"edge-1": {"pool": "edge"}, "plain-1": nil})
}

func (labelled) PodsWith(_ context.Context, _, selector string) ([]string, error) {
	return kube.Selected("pod", selector, map[string]labels.Set{id("ml/split").UID: {"app": "wide"},
		id("ml/trainer-0").UID: nil})
}

// A name or a selector that finds nothing is an error that names what was not found, and what may be meant.
func TestNamesThatFindNothingAreErrors(t *testing.T) {
	c := labelled{named{small(t)}}
	for line, want := range map[string]string{
		"map gpu_a":                    `node "gpu_a" is not known; gpu-a may be meant`,
		"map gpu-a nope":               `node "nope" is not known; there are edge-1, edge-2, gpu-a, gpu-b, gpu-c and 2 more`,
		"map -l pol=gpu":               `no node matches the selector "pol=gpu": none has a label pol; pool may be meant`,
		"map -l pool=gpus":             `no node matches the selector "pool=gpus"`,
		"map gpu-a -l pool=gpu":        "a NODE and --selector cannot both be given",
		"explain node/gpu-z":           `node "gpu-z" is not known; gpu-a may be meant`,
		"explain pod -n ml trainer-7":  "; trainer-0 may be meant",
		"explain pod -n db split":      "; there is ml/split",
		"explain deploymnt/trainer":    `"deploymnt" is no type that can be explained; deployment may be meant`,
		"explain pdo split":            `"pdo" is no type that can be explained; po may be meant`,
		"pods -n ml split trainer-7":   "there is no pod ml/trainer-7; trainer-0 may be meant",
		"pods -n ml web":               "there is no pod ml/web; there is default/web",
		"pods -A --node gpu_a":         `node "gpu_a" is not known; gpu-a may be meant`,
		"pods -n nope":                 `there is no namespace "nope"; there are db, default, ml`,
		"pods -A -l ap=wide":           "none has a label ap; app may be meant",
		"pods -A -l app=wide --node x": `node "x" is not known`,
		"mapp":                         "Did you mean this?\n  map\n",
	} {
		out, errs, code := run(t, c, strings.Fields(line)...)
		if code != ExitError || out != "" || !strings.Contains(errs, want) {
			t.Errorf("%s: exit code %d, %s%s\nwant %q", line, code, out, errs, want)
		}
	}
}

// A namespace that a flag names is looked for, and the default of the flag is not: it may not be there.
func TestNamespacesOfFlagsAreKnown(t *testing.T) {
	s := whole(t, false)
	s.Connect = func(k Kubeconfig) (Cluster, string, error) { return named{small(t)}, k.Namespace(), nil }
	dir := t.TempDir()
	for line, want := range map[string]string{
		"bundle -f " + dir + "/a.tar.gz":                                "",
		"bundle -f " + dir + "/b.tar.gz --agent-namespace ml":           "",
		"bundle -f " + dir + "/c.tar.gz --agent-namespace=":             "",
		"bundle -f " + dir + "/d.tar.gz --agent-namespace mll":          `--agent-namespace: there is no namespace "mll"; ml may`,
		"bundle -f " + dir + "/e.tar.gz --termination-messages ml,nope": `--termination-messages: there is no namespace "nope"`,
		"console --agent-namespace mll":                                 `there is no namespace "mll"; ml may be meant`,
	} {
		var out, errs bytes.Buffer
		code := Run(t.Context(), strings.Fields(line), &out, &errs, s)
		if (code == ExitError) != (want != "") || !strings.Contains(errs.String(), want) {
			t.Errorf("%s: exit code %d, %s, want %q", line, code, &errs, want)
		}
	}
}

// Names may have the type before them as kubectl writes it, and selectors choose nodes and pods.
func TestNamesHaveTheFormsOfKubectl(t *testing.T) {
	c := labelled{named{small(t)}}
	for line, same := range map[string]string{
		"map node/gpu-a -o name":                  "node/gpu-a\n",
		"map gpu-b no/gpu-a -o name":              "node/gpu-a\nnode/gpu-b\n",
		"map -l pool=gpu -o name":                 "node/gpu-a\nnode/gpu-c\n",
		"pods pod/split -n ml -o name":            "pod/split\n",
		"pods -A -l app=wide -o name":             "pod/split\n",
		"pods -A --node node/gpu-d -o name":       "pod/split\n",
		"explain pod pod/trainer-9 -n ml -o name": "node/gpu-b\nnode/gpu-d\n",
	} {
		if out, errs, code := run(t, c, strings.Fields(line)...); code != 0 || out != same {
			t.Errorf("%s: exit code %d, %q%s, want %q", line, code, out, errs, same)
		}
	}
	if out, _, _ := run(t, c, "map", "-l", "pool=edge"); !strings.Contains(out, "edge-1") ||
		strings.Contains(out, "gpu-a") {
		t.Errorf("a node that cannot be drawn is not named:\n%s", out)
	}
}

// catalogued has the lab's catalogue of machines, and no cluster.
func catalogued() Setup {
	return Setup{Stages: stages(nil), Catalogued: machines.List(), Catalogue: func(name string) ([]byte, []byte, bool) {
		m, err := machines.Load(name)
		return []byte(m.Text), []byte(m.YAML), err == nil
	}}
}

// A machine of the catalogue is drawn by its name, with what its kubelet's configuration reserves.
func TestMachinesOfTheCatalogueAreDrawn(t *testing.T) {
	s := catalogued()
	var out, errs bytes.Buffer
	if code := Run(t.Context(), []string{"map", "--machine", "gpu-8"}, &out, &errs, s); code != 0 ||
		!strings.Contains(out.String(), "single-numa-node") || !strings.Contains(out.String(), "nvidia.com/gpu") {
		t.Errorf("exit code %d\n%s%s", code, &out, &errs)
	}
	out.Reset()
	errs.Reset()
	add := []string{"simulate", "--without", "b", "--add", "node-a"}
	if code := Run(t.Context(), add, &out, &errs, s); code != ExitError ||
		!strings.Contains(errs.String(), "; like a node of the cluster is node/node-a") {
		t.Errorf("exit code %d, %s", code, &errs)
	}
	for _, line := range []string{"map --machine gpu8", "check -f testdata/simulate-one.yaml --machine gpu8"} {
		var out, errs bytes.Buffer
		if code := Run(t.Context(), strings.Fields(line), &out, &errs, s); code != ExitError ||
			!strings.Contains(errs.String(), "there is no machine file gpu8, and no such machine in the catalogue; gpu-8 may") {
			t.Errorf("%s: exit code %d, %s", line, code, &errs)
		}
	}
}

// A directory stands for the manifests in it.
func TestDirectoriesOfManifestsAreRead(t *testing.T) {
	dir := t.TempDir()
	const pod = "apiVersion: v1\nkind: Pod\nmetadata: {name: NAME}\nspec: {containers: [{name: c, image: i}]}\n"
	if err := os.MkdirAll(filepath.Join(dir, "more", "none"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"a.yaml", "b.yml", "more/c.json", "README.md", "more/none/values.txt"} {
		name := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
		if err := os.WriteFile(filepath.Join(dir, file), []byte(strings.Replace(pod, "NAME", name, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	mixed := filepath.Join(dir, "mixed") // with objects that have no pods, and a file without any object
	for file, text := range map[string]string{"svc/svc.yaml": "apiVersion: v1\nkind: Service\nmetadata: {name: web}\n",
		"svc/empty.yaml": "", "c.yaml": strings.Replace(pod, "NAME", "c", 1), "svc.yaml": "apiVersion: v1\nkind: Service\n" +
			"metadata: {name: web}\n"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(mixed, file)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(mixed, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	const on = " --machine testdata/simulate-pair.txt"
	for line, want := range map[string]struct {
		code int
		says string
	}{
		"check -f " + dir + on:                 {ExitYes, "a b"},
		"check -f " + link + on:                {ExitYes, "a b"},
		"check -f " + mixed + on:               {ExitYes, "c"},
		"check -f " + mixed + "/svc" + on:      {ExitError, "error: the files of -f have no pods that can be judged"},
		"check -f " + mixed + "/svc.yaml" + on: {ExitError, "svc.yaml: no pods, and no objects that are known"},
		"simulate -f " + mixed + "/svc --machines testdata/simulate-pair.txt": {ExitError, "the files of -f have no pods"},
		"check -R -f " + dir + "/more" + on:                                   {ExitYes, "c"},
		"check -f " + dir + "/b.yml -f " + dir + "/more" + on:                 {ExitYes, "b c"},
		"simulate -f " + dir + " --machines testdata/simulate-pair.txt":       {ExitYes, "a b"},
		"check -f " + dir + "/more/none" + on:                                 {ExitError, "no files that end with .yaml"},
	} {
		var out, errs bytes.Buffer
		code := Run(t.Context(), strings.Fields(line), &out, &errs, Setup{Stages: stages(nil)})
		var pods []string
		for _, name := range []string{"a", "b", "c"} {
			pod := "Pod default/" + name
			if strings.Contains(out.String(), pod+": ") || strings.Contains(out.String(), pod+" ") {
				pods = append(pods, name)
			}
		}
		if says := strings.Join(pods, " ") + errs.String(); code != want.code || !strings.Contains(says, want.says) ||
			code == ExitYes && strings.Join(pods, " ") != want.says {
			t.Errorf("%s: exit code %d, %q, want %d, %q", line, code, says, want.code, want.says)
		}
	}
}
