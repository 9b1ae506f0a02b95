package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/tenon-numa/tenon/tools/release/archive"
	"github.com/tenon-numa/tenon/tools/release/chart"
	"github.com/tenon-numa/tenon/tools/release/image"
	"github.com/tenon-numa/tenon/tools/release/page"
)

// pluginName is the program that kubectl finds as kubectl tenon.
const pluginName = "kubectl-tenon"

// pluginPlatforms returns the platforms of the kubectl plugin.
func pluginPlatforms() (out []v1.Platform) {
	for _, os := range []string{"linux", "darwin", "windows"} {
		for _, arch := range []string{"amd64", "arm64"} {
			out = append(out, v1.Platform{OS: os, Architecture: arch})
		}
	}
	return out
}

// pageFolder is where the files of a release's page are; it has no other files.
func (o *options) pageFolder() string { return filepath.Join(o.out, "v"+o.source.Version) }

// release makes all files of a release's page on GitHub, and prints what to sign. It removes earlier files of the
// version.
func release(ctx context.Context, o *options, stdout io.Writer) error {
	changelog, err := os.ReadFile(filepath.Join(o.source.Root, "CHANGELOG.md"))
	if err != nil {
		return fmt.Errorf("read the changelog: %w", err)
	}
	notes, err := page.Notes(string(changelog), o.source.Version, !o.tagged)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(o.pageFolder()); err != nil {
		return fmt.Errorf("make room for the release: %w", err)
	}
	if err := os.MkdirAll(o.pageFolder(), 0o755); err != nil {
		return fmt.Errorf("make the folder of the release: %w", err)
	}
	built, err := buildImages(ctx, o)
	if err != nil {
		return err
	}
	pushed, err := listPushed(o, built)
	if err != nil {
		return err
	}
	archives, err := archiveAll(ctx, o)
	if err != nil {
		return err
	}
	if err := writeChart(o, o.pageFolder(), io.Discard); err != nil {
		return err
	}
	base := "https://github.com/tenon-numa/tenon/releases/download/v" + o.source.Version
	krew, err := page.Krew(o.source.Version, base, archives)
	if err != nil {
		return err
	}
	if err := o.writePageFile("tenon.yaml", krew); err != nil {
		return err
	}
	if err := o.writePageFile("NOTES.md", []byte(notes)); err != nil {
		return err
	}
	return writeSums(ctx, o, pushed, stdout)
}

// writePageFile writes a file of the release's page.
func (o *options) writePageFile(name string, data []byte) error {
	if err := os.WriteFile(filepath.Join(o.pageFolder(), name), data, 0o644); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// listPushed writes the list of artifacts for a registry, with digests, and the bills of materials of the images. It
// returns the list as subjects of provenance.
func listPushed(o *options, built []image.Built) (subjects []page.Subject, err error) {
	var b bytes.Buffer
	add := func(name, digest, platform string) {
		fmt.Fprintln(&b, strings.TrimSpace(name+"@"+digest+" "+platform))
		subjects = append(subjects, page.Subject{Name: name,
			Digest: map[string]string{"sha256": strings.TrimPrefix(digest, "sha256:")}})
	}
	for _, i := range built {
		add(fmt.Sprintf("%s/%s:%s", o.registry, i.Name, o.source.Version), i.Digest, i.Platform)
		if i.Platform == "" {
			continue
		}
		file := image.BillName(i.Name, i.Platform)
		bill, err := os.ReadFile(filepath.Join(o.out, "images", file))
		if err != nil {
			return nil, fmt.Errorf("read the bill of materials of %s: %w", i.Name, err)
		}
		if err := o.writePageFile(file, bill); err != nil {
			return nil, err
		}
	}
	c, err := o.chart()
	if err != nil {
		return nil, err
	}
	digest, err := chart.Digest(c, o.source.Date)
	if err != nil {
		return nil, err
	}
	add(fmt.Sprintf("%s/charts/%s:%s", o.registry, c.Name(), o.source.Version), digest, "")
	return subjects, o.writePageFile("images.txt", b.Bytes())
}

// archiveAll builds the kubectl plugin for all platforms, and writes an archive and a bill of materials for each.
func archiveAll(ctx context.Context, o *options) (out []page.Archive, err error) {
	license, err := os.ReadFile(filepath.Join(o.source.Root, "LICENSE"))
	if err != nil {
		return nil, fmt.Errorf("read the license: %w", err)
	}
	work, err := os.MkdirTemp("", "tenon-plugin-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for programs: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }()
	for _, on := range pluginPlatforms() {
		fmt.Fprintf(os.Stderr, "build %s for %s\n", pluginName, on)
		path := filepath.Join(work, pluginName)
		if err := o.source.Compile(ctx, image.Program{Name: pluginName}, on, path); err != nil {
			return nil, err
		}
		a, err := packPlugin(o, on, path, license)
		if err != nil {
			return nil, err
		}
		out = append(out, a)
	}
	return out, nil
}

// packPlugin writes the archive of a compiled kubectl plugin, and its bill of materials. If the plugin can run on
// this computer, packPlugin first verifies the version that it prints.
func packPlugin(o *options, on v1.Platform, path string, license []byte) (a page.Archive, err error) {
	program, err := os.ReadFile(path)
	if err != nil {
		return a, fmt.Errorf("read program: %w", err)
	}
	if on.OS == runtime.GOOS && on.Architecture == runtime.GOARCH {
		if err := checkVersion(o, path); err != nil {
			return a, err
		}
	}
	stem := fmt.Sprintf("%s_v%s_%s_%s", pluginName, o.source.Version, on.OS, on.Architecture)
	a = page.Archive{OS: on.OS, Arch: on.Architecture, Name: stem + ".tar.gz"}
	files := []archive.File{{Name: pluginName, Mode: 0o755, Data: program},
		{Name: "LICENSE", Mode: 0o644, Data: license}}
	var data []byte
	if on.OS == "windows" {
		files[0].Name += ".exe"
		a.Name = stem + ".zip"
		data, err = archive.Zip(files, o.source.Date)
	} else {
		data, err = archive.TarGz(files, o.source.Date, gzip.BestCompression)
	}
	if err != nil {
		return a, err
	}
	bill, err := o.source.BillOfMaterials(pluginName, path)
	if err != nil {
		return a, err
	}
	sum := sha256.Sum256(data)
	a.SHA256 = hex.EncodeToString(sum[:])
	if err := o.writePageFile(a.Name, data); err != nil {
		return a, err
	}
	return a, o.writePageFile(stem+".spdx.json", bill)
}

// checkVersion runs a program of this machine's platform, and fails if it prints another version or commit.
func checkVersion(o *options, path string) error {
	out, err := exec.Command(path, "--version").CombinedOutput()
	if err != nil {
		return fmt.Errorf("ask %s for its version: %w: %s", filepath.Base(path), err, out)
	}
	for _, want := range []string{"v" + o.source.Version + " ", "commit " + o.source.Commit[:12], "Kubernetes 1."} {
		if !strings.Contains(string(out), want) {
			return fmt.Errorf("%s says of its version %q, want %q in it", filepath.Base(path), out, want)
		}
	}
	return nil
}

// Files that have the checksums of all other files of the page.
const (
	sumsFile       = "SHA256SUMS"
	provenanceFile = "provenance.intoto.json"
)

// writeSums writes the checksums of all files and the statement of provenance, and prints what to sign.
func writeSums(ctx context.Context, o *options, pushed []page.Subject, stdout io.Writer) error {
	entries, err := os.ReadDir(o.pageFolder())
	if err != nil {
		return fmt.Errorf("read the folder of the release: %w", err)
	}
	var sums bytes.Buffer
	var subjects []page.Subject
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(o.pageFolder(), e.Name()))
		if err != nil {
			return fmt.Errorf("read %s: %w", e.Name(), err)
		}
		sum := sha256.Sum256(data)
		text := hex.EncodeToString(sum[:])
		fmt.Fprintf(&sums, "%s  %s\n", text, e.Name())
		subjects = append(subjects, page.Subject{Name: e.Name(), Digest: map[string]string{"sha256": text}})
	}
	if err := o.writePageFile(sumsFile, sums.Bytes()); err != nil {
		return err
	}
	version, err := exec.CommandContext(ctx, "go", "env", "GOVERSION").Output()
	if err != nil {
		return fmt.Errorf("ask for Go's version: %w", err)
	}
	statement, err := page.Provenance(append(subjects, pushed...), o.source.Version, o.source.Commit,
		strings.TrimSpace(string(version)))
	if err != nil {
		return err
	}
	if err := o.writePageFile(provenanceFile, statement); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%s\nThese files are in %s.\n", sums.String(), o.pageFolder())
	if !o.tagged {
		fmt.Fprintf(stdout, "\nThis is a trial: commit %.12s has no tag v%s.\n", o.source.Commit, o.source.Version)
	}
	return writeSigning(o, pushed, stdout)
}

// writeSigning prints the commands that sign a release, and writes them to a file beside the folder of the release.
// They sign first the files of the release's page, then the artifacts in the registry. The list of a program's images
// is signed together with all images that it lists.
func writeSigning(o *options, pushed []page.Subject, stdout io.Writer) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "#!/bin/sh\n# Run this in the folder v%s, after make push; cosign asks for an identity, or takes "+
		"the one of a workflow.\nset -eu\n", o.source.Version)
	fmt.Fprintf(&b, "cosign sign-blob --yes --bundle %s.sigstore.json %s\n", sumsFile, sumsFile)
	fmt.Fprintf(&b, "cosign attest-blob --yes --bundle provenance.sigstore.json --statement %s\n", provenanceFile)
	signed := map[string]string{} // repository and tag -> digest; the list of all platforms comes last
	var order []string
	for _, s := range pushed {
		if signed[s.Name] == "" {
			order = append(order, s.Name)
		}
		signed[s.Name] = s.Digest["sha256"]
	}
	for _, name := range order {
		fmt.Fprintf(&b, "cosign sign --yes --recursive %s@sha256:%s\n", strings.TrimSuffix(name, ":"+o.source.Version), signed[name])
	}
	path := filepath.Join(o.out, "sign.sh")
	if err := os.WriteFile(path, b.Bytes(), 0o755); err != nil {
		return fmt.Errorf("write what is to be signed: %w", err)
	}
	fmt.Fprintf(stdout, "\nSend images and chart to the registry (make push REGISTRY=%s VERSION=v%s). Then sign, by %s:\n\n", o.registry,
		o.source.Version, path)
	_, commands, _ := strings.Cut(b.String(), "set -eu\n")
	fmt.Fprintf(stdout, "%s\nThe page of the release gets all files of %s, with the two bundles that cosign writes there.\n",
		commands, o.pageFolder())
	return nil
}

// buildImages builds the images of the selected programs into OUT/images, and writes a table of them beside the
// images.
func buildImages(ctx context.Context, o *options) (all []image.Built, err error) {
	for _, p := range o.programs {
		fmt.Fprintf(os.Stderr, "build %s %s\n", p.Name, o.source.Version)
		built, err := o.source.Write(ctx, p, o.platforms, o.registry, filepath.Join(o.out, "images"))
		if err != nil {
			return nil, err
		}
		all = append(all, built...)
	}
	var b bytes.Buffer
	if err := printImages(&b, all); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(o.out, "images", "images.txt"), b.Bytes(), 0o644); err != nil {
		return nil, fmt.Errorf("write the table of images: %w", err)
	}
	return all, nil
}

// printJSON writes JSON for programs.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
