package main

import (
	"bytes"
	"encoding/json"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	helm "helm.sh/helm/v4/pkg/registry"
	"sigs.k8s.io/yaml"

	"github.com/tenon-numa/tenon/tools/release/image"
	"github.com/tenon-numa/tenon/tools/release/page"
)

func TestParseVersion(t *testing.T) {
	for text, want := range map[string]string{
		"v0.2.0": "0.2.0", "0.2.0": "0.2.0", "v1.0.0-rc.1": "1.0.0-rc.1", "0.0.0-dev.4f63f781c2aa": "0.0.0-dev.4f63f781c2aa",
		"v1.0.0-12345678901a": "1.0.0-12345678901a",
	} {
		if got, err := parseVersion(text); err != nil || got != want {
			t.Errorf("%s: %q, %v, want %q", text, got, err, want)
		}
	}
	for _, text := range []string{"", "v", "v0.2", "0.2.0.1", "v01.2.0", "V0.2.0", "latest", "v0.2.0-", "v0.2.0-rc..1",
		"v0.2.0-rc.01", "v0.2.0+build", "v0.2.0 ", "../v0.2.0", "v0.2.0-$(id)", "v9999999.0.0"} {
		if got, err := parseVersion(text); err == nil || !strings.Contains(err.Error(), "v1.2.3") {
			t.Errorf("%q is taken for version %q (%v), want an error that shows the form", text, got, err)
		}
	}
}

// TestEveryCommitHasAVersion: a hash may be of digits only, or begin with a zero or with many digits.
func TestEveryCommitHasAVersion(t *testing.T) {
	for _, hash := range []string{"4f63f781c2aa", "1234567890ab", "0123456789ab", "012345678901", "999999999999",
		"000000000000", "1234567e8901"} {
		version := developmentVersion(hash + "0123")
		got, err := parseVersion(version)
		if err != nil || !strings.HasSuffix(got, hash) || !isDevelopment(got) {
			t.Errorf("commit %s has version %q (%v), want one for development that ends with it", hash, got, err)
		}
	}
}

// TestAVersionNamesTheOlderRelease: images and charts for several API servers can be in one registry.
func TestAVersionNamesTheOlderRelease(t *testing.T) {
	for version, want := range map[string]string{"0.2.0": "0.2.0-kubernetes1.35", "0.2.0-rc.1": "0.2.0-rc.1.kubernetes1.35",
		"0.0.0-dev.g4f63f781c2aa": "0.0.0-dev.g4f63f781c2aa.kubernetes1.35"} {
		got := versionFor(version, "1.35")
		if parsed, err := parseVersion(got); err != nil || parsed != want {
			t.Errorf("version %s for 1.35: %q (%v), want %q", version, got, err, want)
		}
	}
	err := run(t.Context(), []string{"package", "-kubernetes", "1.33", "-out", t.TempDir()}, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "want one of 1.34, 1.35, 1.36") {
		t.Errorf("-kubernetes 1.33: %v, want the releases that there are", err)
	}
	var out bytes.Buffer
	folder := t.TempDir()
	if err := run(t.Context(), []string{"package", "-kubernetes", "1.35", "-version", "0.0.0-test", "-out", folder}, &out); err != nil {
		t.Fatal(err)
	}
	c, err := loader.Load(filepath.Join(folder, "tenon-0.0.0-test.kubernetes1.35.tgz"))
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Metadata.Annotations["tenon.sh/kubernetes"]; got != "1.35" || !strings.HasSuffix(c.Metadata.AppVersion, "kubernetes1.35") {
		t.Errorf("the chart is for Kubernetes %s, and of version %s", got, c.Metadata.AppVersion)
	}
}

// repository makes a git repository with one commit in a folder of its own, and goes there.
func repository(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	if err := os.WriteFile("CHANGELOG.md", []byte("# Changelog\n\n## Unreleased\n\n- to come\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	runGit(t, "init", "-q")
	commit(t)
}

func commit(t *testing.T) {
	t.Helper()
	runGit(t, "add", "-A")
	runGit(t, "-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-q", "--allow-empty", "-m", "change")
}

func runGit(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("git", args...).CombinedOutput(); err != nil {
		t.Fatalf("git %v: %v: %s", args, err, out)
	}
}

// TestAReleaseIsMadeOfItsTag: changed files and a tag at another commit are refused, before anything is built.
func TestAReleaseIsMadeOfItsTag(t *testing.T) {
	repository(t)
	refused := func(want string) {
		t.Helper()
		err := run(t.Context(), []string{"release", "-version", "v0.2.0"}, io.Discard)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	runGit(t, "tag", "v0.2.0")
	refused(`CHANGELOG.md says nothing of version 0.2.0`)
	if err := os.WriteFile("new", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	refused("files have changed since")
	commit(t)
	refused("tag v0.2.0 is at commit")

	s, tagged, err := readSource(t.Context(), "v0.3.0")
	if err != nil || tagged || s.Version != "0.3.0" {
		t.Errorf("a version without a tag: %+v, %v, %v, want a trial", s, tagged, err)
	}
	runGit(t, "tag", "v0.3.0")
	if s, tagged, err = readSource(t.Context(), ""); err != nil || !tagged || s.Version != "0.3.0" {
		t.Errorf("no version at a tag: %+v, %v, %v, want the tag", s, tagged, err)
	}
}

// built writes images of a small program into the folder of a release that has no others.
func built(t *testing.T) *options {
	t.Helper()
	o := &options{out: t.TempDir(), registry: "example.com/tenon",
		platforms: []v1.Platform{{OS: "linux", Architecture: "amd64"}, {OS: "linux", Architecture: "arm64"}}}
	var err error
	if o.source, _, err = readSource(t.Context(), "0.0.0-test"); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "program")
	if out, err := exec.Command("go", "build", "-o", program, "./image/testdata/program").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, p := range image.Programs() {
		var files []image.Binary
		for _, platform := range o.platforms {
			files = append(files, image.Binary{Platform: platform, Path: program})
		}
		if _, err := o.source.Store(p, files, o.registry, filepath.Join(o.out, "images")); err != nil {
			t.Fatal(err)
		}
	}
	return o
}

// TestPush sends images and chart to a registry, where Helm's own client finds the chart.
func TestPush(t *testing.T) {
	o := built(t)
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://") + "/numa"
	var out bytes.Buffer
	if err := run(t.Context(), []string{"push", "-programs", "all", "-registry", host, "-version", "0.0.0-test", "-out", o.out}, &out); err != nil {
		t.Fatal(err)
	}
	list, next, _ := strings.Cut(out.String(), "\n\n")
	sent := strings.Fields(list)
	if len(sent) != 7 {
		t.Fatalf("sent %q, want six images and the chart", sent)
	}
	if want := "helm install tenon oci://" + host + "/charts/tenon --version 0.0.0-test "; !strings.Contains(next, want) {
		t.Errorf("what is printed for the next step has no %q:\n%s", want, next)
	}
	for i, name := range []string{"/tenon-agent@sha256:", "/tenon-console@sha256:", "/tenon-scheduler@sha256:",
		"/kubectl-tenon@sha256:", "/tenon-descheduler@sha256:", "/tenon-volcano-scheduler@sha256:", "/charts/tenon@sha256:"} {
		if !strings.HasPrefix(sent[i], host+name) {
			t.Errorf("sent %s, want %s%s", sent[i], host, name)
		}
	}
	client, err := helm.NewClient(helm.ClientOptPlainHTTP(), helm.ClientOptWriter(io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	got, err := client.Pull(host + "/charts/tenon:0.0.0-test")
	if err != nil {
		t.Fatal(err)
	}
	c, err := loader.LoadArchive(bytes.NewReader(got.Chart.Data))
	if err != nil || c.Metadata.AppVersion != "0.0.0-test" || !strings.HasSuffix(sent[6], got.Manifest.Digest) {
		t.Errorf("the chart in the registry is %+v with digest %s (%v), want %s", c.Metadata, got.Manifest.Digest, err, sent[6])
	}
	if got := c.Values["image"].(map[string]any)["registry"]; got != host {
		t.Errorf("the chart takes its images from %v, and they are in %s", got, host)
	}
}

// TestProgramsOf: without names of programs, only programs of the main module are built, which need no other release of
// Kubernetes.
func TestProgramsOf(t *testing.T) {
	for text, want := range map[string]string{
		"":                                    "tenon-agent, tenon-console, tenon-scheduler, kubectl-tenon",
		"all":                                 "tenon-agent, tenon-console, tenon-scheduler, kubectl-tenon, tenon-descheduler, tenon-volcano-scheduler",
		"tenon-volcano-scheduler,tenon-agent": "tenon-volcano-scheduler, tenon-agent",
	} {
		if got, err := programsOf(text); err != nil || programNames(got) != want {
			t.Errorf("%q: %s, %v, want %s", text, programNames(got), err, want)
		}
	}
	want := `program "tenon-lab" has no image; those of tenon-agent, tenon-console,`
	if _, err := programsOf("tenon-agent,tenon-lab"); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %s", err, want)
	}
}

// TestOneChartIsInTheFolder: the pages name the package as dist/tenon-*.tgz, which must be one file also after an
// upgrade of the sources.
func TestOneChartIsInTheFolder(t *testing.T) {
	dist := t.TempDir()
	for _, version := range []string{"0.0.0-one", "0.0.0-two"} {
		if err := run(t.Context(), []string{"package", "-version", version, "-out", dist}, io.Discard); err != nil {
			t.Fatal(err)
		}
		found, err := filepath.Glob(filepath.Join(dist, "tenon-*.tgz"))
		if err != nil || len(found) != 1 || filepath.Base(found[0]) != "tenon-"+version+".tgz" {
			t.Errorf("after version %s the folder has %v (%v), want the package of that version", version, found, err)
		}
	}
}

// TestTheKustomizationNamesThePushedImages: kubectl apply -k of the folder installs what make push has sent.
func TestTheKustomizationNamesThePushedImages(t *testing.T) {
	dist := filepath.Join(t.TempDir(), "dist")
	if err := os.Mkdir(dist, 0o755); err != nil {
		t.Fatal(err)
	}
	err := run(t.Context(), []string{"package", "-version", "0.0.0-test", "-registry", "localhost:5000/numa", "-out", dist}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(dist, kustomizationFile))
	if err != nil {
		t.Fatal(err)
	}
	var k struct {
		Resources []string
		Images    []struct{ Name, NewName, NewTag string }
	}
	if err := yaml.Unmarshal(data, &k); err != nil {
		t.Fatalf("%v in\n%s", err, data)
	}
	if len(k.Resources) != 1 || len(k.Images) != 6 {
		t.Fatalf("the kustomization is\n%s", data)
	}
	for _, file := range []string{"agent/daemonset.yaml", "scheduler/deployment.yaml"} {
		text, err := os.ReadFile(filepath.Join(dist, k.Resources[0], file))
		if err != nil {
			t.Fatal(err)
		}
		renamed := 0
		for _, i := range k.Images {
			renamed += strings.Count(string(text), "image: "+i.Name+":")
			if i.NewName != strings.Replace(i.Name, "localhost", "localhost:5000/numa", 1) || i.NewTag != "0.0.0-test" {
				t.Errorf("%s becomes %s:%s", i.Name, i.NewName, i.NewTag)
			}
		}
		if renamed != 1 {
			t.Errorf("%d images of %s get another name, want 1", renamed, file)
		}
	}
}

// TestFilesOfARelease: every file has its checksum, provenance names every file and everything in the registry, and the
// list of what to sign has digests.
func TestFilesOfARelease(t *testing.T) {
	o := built(t)
	if err := os.Mkdir(o.pageFolder(), 0o755); err != nil {
		t.Fatal(err)
	}
	var all []image.Built
	for _, p := range image.Programs() {
		for i, platform := range []string{"linux/amd64", "linux/arm64", ""} {
			all = append(all, image.Built{Name: p.Name, Platform: platform, Digest: "sha256:" + strings.Repeat(string(rune('a'+i)), 64)})
		}
	}
	pushed, err := listPushed(o, all)
	if err != nil {
		t.Fatal(err)
	}
	if err := writeChart(o, o.pageFolder(), io.Discard); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := writeSums(t.Context(), o, pushed, &out); err != nil {
		t.Fatal(err)
	}
	checkSums(t, o.pageFolder())
	data, err := os.ReadFile(filepath.Join(o.pageFolder(), provenanceFile))
	if err != nil {
		t.Fatal(err)
	}
	var statement struct{ Subject []page.Subject }
	if err := json.Unmarshal(data, &statement); err != nil {
		t.Fatal(err)
	}
	if n := len(statement.Subject); n != 14+19 {
		t.Errorf("provenance of %d subjects, want 14 files, 18 images and the chart", n)
	}
	for _, want := range []string{
		"cosign sign --yes --recursive example.com/tenon/tenon-agent@sha256:" + strings.Repeat("c", 64) + "\n",
		"cosign sign --yes --recursive example.com/tenon/charts/tenon@sha256:", "cosign sign-blob --yes --bundle SHA256SUMS",
		"This is a trial",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

// checkSums verifies the checksums of a folder by the program that users have.
func checkSums(t *testing.T, folder string) {
	t.Helper()
	cmd := exec.Command("sha256sum", "--check", "--strict", sumsFile)
	cmd.Dir = folder
	if out, err := cmd.CombinedOutput(); err != nil || strings.Count(string(out), ": OK\n") != 14 {
		t.Errorf("%v, want 14 files that are as they should be:\n%s", err, out)
	}
}
