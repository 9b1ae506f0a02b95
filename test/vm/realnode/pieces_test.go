package realnode

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/tenon-numa/tenon/core/topo"
	"github.com/tenon-numa/tenon/lab/machines"
)

// The release that the older kubelet is named by is that of its source.
func TestTheOlderKubeletIsPinned(t *testing.T) {
	for _, p := range olderParts("") {
		text, err := os.ReadFile(filepath.Join("../../..", p.dir, "go.mod"))
		if err != nil {
			t.Fatal(err)
		}
		if want := "\tk8s.io/kubernetes " + OlderKubelet + " // indirect\n"; !strings.Contains(string(text), want) {
			t.Errorf("go.mod of %s has no %q", p.name, want)
		}
	}
}

func TestHardware(t *testing.T) {
	m, err := machines.Read(os.DirFS("trial/testdata"), "two")
	if err != nil {
		t.Fatal(err)
	}
	args, cmdline, err := qemuArgs(m.Topo)
	if err != nil {
		t.Fatal(err)
	}
	const want = "-machine q35 -cpu max,vendor=GenuineIntel -smp 8,sockets=2,cores=2,threads=2 -m 2560" +
		" -object memory-backend-ram,id=m0,size=1280M -numa node,nodeid=0,memdev=m0,cpus=0-3" +
		" -object memory-backend-ram,id=m1,size=1280M -numa node,nodeid=1,memdev=m1,cpus=4-7" +
		" -numa dist,src=0,dst=1,val=21 -numa dist,src=1,dst=0,val=21"
	if got := strings.Join(args, " "); got != want {
		t.Errorf("arguments are\n%s\nwant\n%s", got, want)
	}
	if cmdline != "hugepagesz=2M hugepages=0:64,1:32" {
		t.Errorf("command line is %q", cmdline)
	}
}

func TestHardwareThatQEMUCannotMakeIsRefused(t *testing.T) {
	for _, c := range []struct{ text, why string }{
		{"numa 0 cpus 0-63 memory 1Gi", "CPUs are 0-63"},
		{"numa 0 cpus 1-2 memory 1Gi", "CPUs are 1-2"},
		{"numa 0 cpus 0-1 memory 1Gi\nnuma 8 cpus 2-3 memory 1Gi", "numa ids"},
		{"numa 0 cpus 0-1 memory 65Gi", "memory is 65Gi"},
		{"numa 0 cpus 0-1 memory 1536Ki", "multiple of 1Mi"},
		{"numa 0 socket 0 cpus 0-2 memory 1Gi\nnuma 1 socket 1 cpus 3 memory 1Gi", "sockets"},
		{"numa 0 cpus 0-1/2-3 memory 1Gi", "not of the core"},
	} {
		m, err := topo.ParseMachine(c.text)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := qemuArgs(m); err == nil || !strings.Contains(err.Error(), c.why) {
			t.Errorf("machine %q: error %v, want %q in it", c.text, err, c.why)
		}
	}
}

// The archive contains one program.
func TestImageArchive(t *testing.T) {
	data, err := imageArchive(Image, []string{entryPoint}, tarFile{name: "work", data: []byte("a program"), mode: 0o755})
	if err != nil {
		t.Fatal(err)
	}
	files := untar(t, data)
	if !strings.Contains(files["manifest.json"], `"`+Image+`"`) || !strings.Contains(files["config.json"], "sha256:") {
		t.Errorf("files are %v", files)
	}
	if layer := untar(t, []byte(files["layer.tar"])); layer["work"] != "a program" {
		t.Errorf("the layer has %v", layer)
	}
	again, err := imageArchive(Image, []string{entryPoint}, tarFile{name: "work", data: []byte("a program"), mode: 0o755})
	if err != nil || !bytes.Equal(data, again) {
		t.Errorf("the second archive is another (%v)", err)
	}
}

func untar(t *testing.T, data []byte) map[string]string {
	t.Helper()
	out := map[string]string{}
	for r := tar.NewReader(bytes.NewReader(data)); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		out[h.Name] = string(content)
	}
}

// A guest reaches the host's API server, and still verifies its certificate.
func TestKubeconfig(t *testing.T) {
	access := &rest.Config{Host: "https://127.0.0.1:6443", BearerToken: "t", TLSClientConfig: rest.TLSClientConfig{
		CAData: []byte("ca")}}
	data, err := kubeconfig(access)
	if err != nil {
		t.Fatal(err)
	}
	got, err := clientcmd.RESTConfigFromKubeConfig(data)
	if err != nil {
		t.Fatal(err)
	}
	if got.Host != "https://10.0.2.2:6443" || got.ServerName != "127.0.0.1" || got.Insecure || got.BearerToken != "t" {
		t.Errorf("access is %+v", got)
	}
	for _, bad := range []*rest.Config{
		{Host: "https://example.org:6443", BearerToken: "t", TLSClientConfig: access.TLSClientConfig},
		{Host: "http://127.0.0.1:6443", BearerToken: "t", TLSClientConfig: access.TLSClientConfig},
		{Host: access.Host, TLSClientConfig: access.TLSClientConfig},
		{Host: access.Host, BearerToken: "t"},
	} {
		if _, err := kubeconfig(bad); err == nil {
			t.Errorf("%s with token %q is taken", bad.Host, bad.BearerToken)
		}
	}
}

const someProcesses = `P 812 /kubepods/burstable/pod0b6f/c1
C 0-1,6
M 0-3
N N1=569 N3=3292 
P 33 /kubepods/pod77aa/c2
C 2-3
M 0
N 
`

func TestParseProcesses(t *testing.T) {
	got, err := parseProcesses(someProcesses)
	if err != nil || len(got) != 2 {
		t.Fatalf("%d processes, %v", len(got), err)
	}
	if p := got[0]; p.PID != 33 || p.PodUID != "77aa" || p.Container != "c2" || p.CPUs.String() != "2-3" ||
		p.Mems.String() != "0" || len(p.Pages) != 0 {
		t.Errorf("first process is %+v", p)
	}
	if p := got[1]; p.PodUID != "0b6f" || p.CPUs.String() != "0-1,6" || p.Pages[3] != 3292 {
		t.Errorf("second process is %+v", p)
	}
	for _, bad := range []string{
		"C 0-1\n", "P x /kubepods/pod1/c\n", "P 1 /kubepods/c\n", "P 1 /kubepods/pod1/c\nC 0-\n",
		"P 1 /kubepods/pod1/c\nN N1=-1\n", "P 1 /kubepods/pod1/c\nN N99999=1\n", "P 1 /kubepods/pod1/c\nX 1\n",
	} {
		if _, err := parseProcesses(bad); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

func FuzzParseProcesses(f *testing.F) {
	f.Add(someProcesses)
	f.Add("P 1 /kubepods/podx/y\nC 0\nM 0\nN N0=1\n")
	f.Fuzz(func(t *testing.T, text string) {
		ps, err := parseProcesses(text)
		if err != nil {
			return
		}
		for _, p := range ps {
			if p.PID <= 0 || p.PodUID == "" {
				t.Errorf("process %+v of %q", p, text)
			}
			for _, n := range p.Pages {
				if n < 0 || n > maxPages {
					t.Errorf("%d pages of %q", n, text)
				}
			}
		}
	})
}
