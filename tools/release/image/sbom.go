package image

import (
	"bytes"
	"debug/buildinfo"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"regexp"
	"runtime/debug"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/partial"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	spdxjson "github.com/spdx/tools-golang/json"
	"github.com/spdx/tools-golang/spdx"
)

// spdxType is the media type of an SPDX document in JSON.
const spdxType types.MediaType = "application/spdx+json"

// noAssertion is SPDX's value of a field about which a document states nothing.
const noAssertion = "NOASSERTION"

// BillOfMaterials returns the components of a compiled program as an SPDX document: the modules that the Go linker
// wrote into it, with their checksums, and the toolchain.
func (s Source) BillOfMaterials(name, path string) ([]byte, error) {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the modules of %s: %w", path, err)
	}
	const home = "https://github.com/tenon-numa/tenon"
	document, program := spdx.DocElementID{ElementRefID: "DOCUMENT"}, spdx.DocElementID{ElementRefID: "program"}
	doc := spdx.Document{SPDXVersion: spdx.Version, DataLicense: spdx.DataLicense,
		SPDXIdentifier: document.ElementRefID, DocumentName: name + "-" + s.Version,
		DocumentNamespace: home + "/spdx/" + name + "/" + s.Version + "/" + s.Commit + "/" + platformOf(info),
		CreationInfo: &spdx.CreationInfo{Created: s.Date.UTC().Format(time.RFC3339),
			Creators: []spdx.Creator{{CreatorType: "Tool", Creator: "tenon-release"}}},
		Packages: []*spdx.Package{{PackageSPDXIdentifier: program.ElementRefID, PackageName: name,
			PackageVersion: s.Version, PackageDownloadLocation: "git+" + home + "@" + s.Commit,
			PackageLicenseConcluded: "Apache-2.0", PackageLicenseDeclared: "Apache-2.0",
			PackageCopyrightText: noAssertion, PrimaryPackagePurpose: "APPLICATION"}},
		Relationships: []*spdx.Relationship{{RefA: document, RefB: program,
			Relationship: spdx.RelationshipDescribes}}}
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
		doc.Relationships = append(doc.Relationships, &spdx.Relationship{RefA: program,
			RefB: spdx.DocElementID{ElementRefID: p.PackageSPDXIdentifier}, Relationship: spdx.RelationshipDependsOn})
	}
	var b bytes.Buffer
	if err := spdxjson.Write(doc, &b, spdxjson.Indent("  ")); err != nil {
		return nil, fmt.Errorf("encode the bill of materials of %s: %w", name, err)
	}
	return b.Bytes(), nil
}

func platformOf(info *debug.BuildInfo) string {
	values := map[string]string{}
	for _, s := range info.Settings {
		values[s.Key] = s.Value
	}
	return values["GOOS"] + "-" + values["GOARCH"]
}

// modulePackage describes a module. Go's checksum of a module is the SHA-256 of a list of its files and their hashes,
// in base 64. SPDX has no name for this kind of checksum, so modulePackage writes it as SHA-256, in hexadecimal
// digits.
func modulePackage(m *debug.Module) *spdx.Package {
	id := regexp.MustCompile(`[^a-zA-Z0-9.-]`).ReplaceAllString("module-"+m.Path+"-"+m.Version, "-")
	p := &spdx.Package{PackageSPDXIdentifier: spdx.ElementID(id), PackageName: m.Path, PackageVersion: m.Version,
		PackageDownloadLocation: noAssertion, PackageLicenseConcluded: noAssertion,
		PackageLicenseDeclared: noAssertion, PackageCopyrightText: noAssertion,
		PackageExternalReferences: []*spdx.PackageExternalReference{{
			Category: spdx.CategoryPackageManager, RefType: spdx.PackageManagerPURL,
			Locator: "pkg:golang/" + m.Path + "@" + m.Version}}}
	if sum, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(m.Sum, "h1:")); err == nil && len(sum) == 32 {
		p.PackageChecksums = []spdx.Checksum{{Algorithm: spdx.SHA256, Value: hex.EncodeToString(sum)}}
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
