package image

import (
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// The types of SPDX 2.3 (https://spdx.github.io/spdx-spec/v2.3/) that are needed here.
type (
	spdx struct {
		Version       string         `json:"spdxVersion"`
		DataLicense   string         `json:"dataLicense"`
		ID            string         `json:"SPDXID"`
		Name          string         `json:"name"`
		Namespace     string         `json:"documentNamespace"`
		Created       creation       `json:"creationInfo"`
		Packages      []spdxPackage  `json:"packages"`
		Relationships []relationship `json:"relationships"`
	}
	creation struct {
		Created  string   `json:"created"`
		Creators []string `json:"creators"`
	}
	spdxPackage struct {
		ID          string     `json:"SPDXID"`
		Name        string     `json:"name"`
		Version     string     `json:"versionInfo"`
		Download    string     `json:"downloadLocation"`
		Analyzed    bool       `json:"filesAnalyzed"`
		License     string     `json:"licenseConcluded"`
		Declared    string     `json:"licenseDeclared"`
		Copyright   string     `json:"copyrightText"`
		Checksums   []checksum `json:"checksums,omitempty"`
		References  []external `json:"externalRefs,omitempty"`
		PrimaryKind string     `json:"primaryPackagePurpose,omitempty"`
	}
	checksum struct {
		Algorithm string `json:"algorithm"`
		Value     string `json:"checksumValue"`
	}
	external struct {
		Category string `json:"referenceCategory"`
		Type     string `json:"referenceType"`
		Locator  string `json:"referenceLocator"`
	}
	relationship struct {
		From string `json:"spdxElementId"`
		Kind string `json:"relationshipType"`
		To   string `json:"relatedSpdxElement"`
	}
)

// spdxType is the media type of an SPDX document in JSON.
const spdxType types.MediaType = "application/spdx+json"

// BillOfMaterials returns the components of a compiled program as an SPDX document: the modules that the Go linker
// wrote into it, with their checksums, and the toolchain.
func (s Source) BillOfMaterials(name, path string) ([]byte, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the modules of %s: %w", path, err)
	}
	own := spdxPackage{ID: "SPDXRef-program", Name: name, Version: s.Version, Download: "git+https://github.com/tenon-numa/tenon@" + s.Commit,
		License: "Apache-2.0", Declared: "Apache-2.0", Copyright: "NOASSERTION", PrimaryKind: "APPLICATION"}
	doc := spdx{Version: "SPDX-2.3", DataLicense: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: name + "-" + s.Version,
		Namespace: "https://github.com/tenon-numa/tenon/spdx/" + name + "/" + s.Version + "/" + s.Commit + "/" + platformOf(info),
		Created:   creation{s.Date.UTC().Format(time.RFC3339), []string{"Tool: tenon-release"}}, Packages: []spdxPackage{own},
		Relationships: []relationship{{"SPDXRef-DOCUMENT", "DESCRIBES", own.ID}}}
	parts := append([]*debug.Module{{Path: "stdlib", Version: strings.TrimPrefix(info.GoVersion, "go")}}, info.Deps...)
	for _, m := range parts {
		if m.Replace != nil {
			m = m.Replace
		}
		if strings.HasPrefix(m.Path, ".") { // a module of this repository
			continue
		}
		p := modulePackage(m)
		doc.Packages = append(doc.Packages, p)
		doc.Relationships = append(doc.Relationships, relationship{own.ID, "DEPENDS_ON", p.ID})
	}
	out, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode the bill of materials of %s: %w", name, err)
	}
	return append(out, '\n'), nil
}

func platformOf(info *debug.BuildInfo) string {
	values := map[string]string{}
	for _, s := range info.Settings {
		values[s.Key] = s.Value
	}
	return values["GOOS"] + "-" + values["GOARCH"]
}

// modulePackage describes a module. Go's own checksum is the hash of a list of files, in base 64. SPDX has no name for
// it, so modulePackage writes the digest as SHA-256 in hexadecimal digits.
func modulePackage(m *debug.Module) spdxPackage {
	id := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '.' || r == '-' {
			return r
		}
		return '-'
	}, m.Path+"-"+m.Version)
	p := spdxPackage{ID: "SPDXRef-module-" + id, Name: m.Path, Version: m.Version, Download: "NOASSERTION",
		License: "NOASSERTION", Declared: "NOASSERTION", Copyright: "NOASSERTION",
		References: []external{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + m.Path + "@" + m.Version}}}
	if sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:")); err == nil && len(sum) == 32 {
		p.Checksums = []checksum{{"SHA256", hex.EncodeToString(sum)}}
	}
	return p
}

// Attach returns an OCI artifact with the bill of materials of an image. A registry finds it as the image's referrer.
func Attach(document []byte, img v1.Image) (v1.Image, error) {
	subject, err := partial.Descriptor(img)
	if err != nil {
		return nil, fmt.Errorf("describe the image: %w", err)
	}
	base := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), spdxType)
	out, err := mutate.AppendLayers(base, static.NewLayer(document, spdxType))
	if err != nil {
		return nil, fmt.Errorf("attach the bill of materials: %w", err)
	}
	subject.Platform, subject.Annotations = nil, nil
	return mutate.Subject(out, *subject).(v1.Image), nil
}
