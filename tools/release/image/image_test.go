package image_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/validate"
	spdx "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdxlib"
	"oras.land/oras-go/v2"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/content/memory"
	"oras.land/oras-go/v2/content/oci"
	pull "oras.land/oras-go/v2/registry/remote"

	"github.com/tenon-numa/tenon/tools/release/image"
)

var (
	source = image.Source{Version: "1.2.3", Commit: strings.Repeat("ab", 20), Date: time.Unix(1_790_000_000, 0)}
	agent  = image.Programs()[0]
	amd64  = v1.Platform{OS: "linux", Architecture: "amd64"}
	arm64  = v1.Platform{OS: "linux", Architecture: "arm64"}
)

// program returns a program with dependencies, in place of the agent.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "tenon-image-test-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "program")
	cmd := exec.Command("go", "build", "-o", path, "./testdata/program")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, out)
	}
	return path, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if path, err := program(); err == nil {
		_ = os.RemoveAll(filepath.Dir(path))
	}
	os.Exit(code)
}

// store makes images of the program for two platforms.
func store(t *testing.T) (dir string, built []image.Built) {
	t.Helper()
	path, err := program()
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	if built, err = source.Store(agent, []image.Binary{{amd64, path}, {arm64, path}}, "example.com/tenon", dir); err != nil {
		t.Fatal(err)
	}
	return dir, built
}

// TestSameSourcesGiveTheSameDigests: folders and the clock have no influence.
func TestSameSourcesGiveTheSameDigests(t *testing.T) {
	one, first := store(t)
	two, second := store(t)
	for i := range first {
		if first[i] != second[i] {
			t.Errorf("%+v, then %+v", first[i], second[i])
		}
	}
	if len(first) != 3 || first[0].Digest == first[1].Digest {
		t.Errorf("images %+v, want one for each platform and a list", first)
	}
	a, errA := os.ReadFile(filepath.Join(one, "tenon-agent.tar"))
	b, errB := os.ReadFile(filepath.Join(two, "tenon-agent.tar"))
	if errA != nil || errB != nil || string(a) != string(b) {
		t.Errorf("the archives differ (%v, %v)", errA, errB)
	}
}

// TestAnArchiveNamesItsImage: containerd reads the name from the annotation, others the tag.
func TestAnArchiveNamesItsImage(t *testing.T) {
	dir, _ := store(t)
	f, err := os.Open(filepath.Join(dir, "tenon-agent.tar"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var index v1.IndexManifest
	for r := tar.NewReader(f); ; {
		h, err := r.Next()
		if err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if h.Name == "index.json" {
			if err := json.NewDecoder(r).Decode(&index); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(index.Manifests) != 1 {
		t.Fatalf("%d entries, want the list of images: `kind load image-archive` unpacks each", len(index.Manifests))
	}
	if got := index.Manifests[0].Annotations["io.containerd.image.name"]; got != "example.com/tenon/tenon-agent:1.2.3" {
		t.Errorf("name %q", got)
	}
}

// serve runs a registry, and returns the folder of it that images are pushed to.
func serve(t *testing.T) string {
	t.Helper()
	quiet := registry.Logger(log.New(io.Discard, "", 0))
	server := httptest.NewServer(registry.New(registry.WithReferrersSupport(true), quiet))
	t.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://") + "/numa"
}

// TestOthersReadTheSame: oras shares no code with the writer. It copies the list of images from the archive and from a
// registry, and verifies the size and the digest of everything on the way.
func TestOthersReadTheSame(t *testing.T) {
	dir, built := store(t)
	host := serve(t)
	if _, err := image.Push(t.Context(), filepath.Join(dir, "tenon-agent"), host, "1.2.3"); err != nil {
		t.Fatal(err)
	}
	archive, err := oci.NewFromTar(t.Context(), filepath.Join(dir, "tenon-agent.tar"))
	if err != nil {
		t.Fatal(err)
	}
	repository, err := pull.NewRepository(host + "/tenon-agent")
	if err != nil {
		t.Fatal(err)
	}
	repository.PlainHTTP = true
	for from, source := range map[string]oras.ReadOnlyTarget{"archive": archive, "registry": repository} {
		copied := memory.New()
		list, err := oras.Copy(t.Context(), source, "1.2.3", copied, "", oras.DefaultCopyOptions)
		if err != nil || list.Digest.String() != built[2].Digest {
			t.Fatalf("%s: list %s, %v, want %s", from, list.Digest, err, built[2].Digest)
		}
		images, err := content.Successors(t.Context(), copied, list)
		if err != nil || len(images) != 2 {
			t.Fatalf("%s: %d images, %v", from, len(images), err)
		}
		for i, img := range images {
			platform := img.Platform.OS + "/" + img.Platform.Architecture
			if img.Digest.String() != built[i].Digest || platform != built[i].Platform {
				t.Errorf("%s: image %s for %s, want %+v", from, img.Digest, platform, built[i])
			}
			parts, err := content.Successors(t.Context(), copied, img)
			if err != nil || len(parts) != 2 || parts[1].MediaType != "application/vnd.oci.image.layer.v1.tar+gzip" {
				t.Fatalf("%s: an image of %+v, %v, want a configuration and a layer", from, parts, err)
			}
			layer, err := content.FetchAll(t.Context(), copied, parts[1])
			if err != nil {
				t.Fatal(err)
			}
			checkLayer(t, layer)
		}
	}
}

// checkLayer: a layer has one file, which belongs to root, is read-only, and has the commit's date.
func checkLayer(t *testing.T, layer []byte) {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(layer))
	if err != nil {
		t.Fatal(err)
	}
	r := tar.NewReader(z)
	h, err := r.Next()
	if err != nil || h.Name != "tenon-agent" || h.Mode != 0o555 || h.Uid+h.Gid != 0 || !h.ModTime.Equal(source.Date) {
		t.Errorf("file %+v, %v", h, err)
	}
	if _, err := r.Next(); err != io.EOF {
		t.Errorf("after the program: %v, want the end", err)
	}
}

// TestPushedImagesCanBePulled: a registry has each platform's image, which is valid and runs as nobody, and as its
// referrer its bill of materials.
func TestPushedImagesCanBePulled(t *testing.T) {
	dir, built := store(t)
	host := serve(t)
	sent, err := image.Push(t.Context(), filepath.Join(dir, "tenon-agent"), host, "1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(sent, built[2].Digest) {
		t.Errorf("pushed %s, want the list %s", sent, built[2].Digest)
	}
	ref, err := name.ParseReference(host + "/tenon-agent:1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	for _, platform := range []v1.Platform{amd64, arm64} {
		img, err := remote.Image(ref, remote.WithPlatform(platform))
		if err != nil {
			t.Fatal(err)
		}
		if err := validate.Image(img); err != nil {
			t.Error(err)
		}
		config, err := img.ConfigFile()
		if err != nil {
			t.Fatal(err)
		}
		if config.Architecture != platform.Architecture || config.Config.User != "65532:65532" ||
			len(config.Config.Entrypoint) != 1 || config.Config.Entrypoint[0] != "/tenon-agent" {
			t.Errorf("configuration %+v", config)
		}
		checkBill(t, ref, img)
	}
}

func checkBill(t *testing.T, ref name.Reference, img v1.Image) {
	t.Helper()
	digest, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	referrers, err := remote.Referrers(ref.Context().Digest(digest.String()))
	if err != nil {
		t.Fatal(err)
	}
	list, err := referrers.IndexManifest()
	if err != nil || len(list.Manifests) != 1 || list.Manifests[0].ArtifactType != "application/spdx+json" {
		t.Fatalf("referrers %+v, %v: want one SPDX document", list, err)
	}
	bill, err := remote.Image(ref.Context().Digest(list.Manifests[0].Digest.String()))
	if err != nil {
		t.Fatal(err)
	}
	layers, err := bill.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	r, err := layers[0].Compressed()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	checkNames(t, text)
	doc, err := spdx.Read(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := spdxlib.ValidateDocument(doc); err != nil {
		t.Error(err)
	}
	names := map[string]string{}
	for _, p := range doc.Packages {
		names[p.PackageName] = p.PackageVersion
	}
	if doc.SPDXVersion != "SPDX-2.3" || names["tenon-agent"] != "1.2.3" || names["stdlib"] == "" ||
		names["github.com/google/go-containerregistry"] == "" {
		t.Errorf("%s with packages %v", doc.SPDXVersion, names)
	}
}

var checksum = regexp.MustCompile(`^\[{SHA256 [0-9a-f]{64}}\]$`)

// checkNames reads a bill of materials by the names of SPDX 2.3, without the library that wrote it. The document
// describes the program, the program depends on all other packages, and modules have checksums.
func checkNames(t *testing.T, text []byte) {
	t.Helper()
	var doc struct {
		SPDXID, SPDXVersion, DataLicense, DocumentNamespace string
		CreationInfo                                        struct {
			Created  string
			Creators []string
		}
		Packages []struct {
			SPDXID, Name, VersionInfo, DownloadLocation string
			FilesAnalyzed                               *bool
			Checksums                                   []struct{ Algorithm, ChecksumValue string }

			ExternalRefs []struct{ ReferenceCategory, ReferenceType, ReferenceLocator string }
		}
		Relationships []struct{ SPDXElementID, RelationshipType, RelatedSPDXElement string }
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	if doc.SPDXID != "SPDXRef-DOCUMENT" || doc.SPDXVersion != "SPDX-2.3" || doc.DataLicense != "CC0-1.0" ||
		!strings.HasPrefix(doc.DocumentNamespace, "https://") || doc.CreationInfo.Created != "2026-09-21T14:13:20Z" ||
		!slices.Equal(doc.CreationInfo.Creators, []string{"Tool: tenon-release"}) {
		t.Errorf("document %+v", doc)
	}
	if len(doc.Packages) < 3 || len(doc.Relationships) != len(doc.Packages) {
		t.Fatalf("%d packages, %d relationships", len(doc.Packages), len(doc.Relationships))
	}
	from, kind := "SPDXRef-DOCUMENT", "DESCRIBES"
	for i, p := range doc.Packages {
		r := doc.Relationships[i]
		if r.SPDXElementID != from || r.RelationshipType != kind || r.RelatedSPDXElement != p.SPDXID {
			t.Errorf("%+v, want %s %s %s", r, from, kind, p.SPDXID)
		}
		from, kind = "SPDXRef-program", "DEPENDS_ON"
		if p.FilesAnalyzed == nil || *p.FilesAnalyzed || p.DownloadLocation == "" {
			t.Errorf("package %+v", p)
		}
		purl := fmt.Sprintf("[{PACKAGE-MANAGER purl pkg:golang/%s@%s}]", p.Name, p.VersionInfo)
		if i > 0 && fmt.Sprint(p.ExternalRefs) != purl {
			t.Errorf("references %v, want %s", p.ExternalRefs, purl)
		}
		if i > 1 && !checksum.MatchString(fmt.Sprint(p.Checksums)) {
			t.Errorf("checksums %v of %s", p.Checksums, p.Name)
		}
	}
}
