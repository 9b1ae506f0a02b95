package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/tenon-numa/tenon/tools/release/image"
	"github.com/tenon-numa/tenon/tools/release/page"
)

// plugins are the platforms of the kubectl plugin.
func plugins() (out []v1.Platform) {
	for _, os := range []string{"linux", "darwin", "windows"} {
		for _, arch := range []string{"amd64", "arm64"} {
			out = append(out, v1.Platform{OS: os, Architecture: arch})
		}
	}
	return out
}

// release makes everything that a release's page has, and prints what is to be signed.
func release(ctx context.Context, o *options, stdout io.Writer) error {
	if err := os.MkdirAll(o.out, 0o755); err != nil {
		return fmt.Errorf("make the folder of the release: %w", err)
	}
	changelog, err := os.ReadFile(filepath.Join(o.source.Root, "CHANGELOG.md"))
	if err != nil {
		return fmt.Errorf("read the changelog: %w", err)
	}
	notes, err := page.Notes(string(changelog), o.source.Version, strings.HasPrefix(o.source.Version, "0.0.0-"))
	if err != nil {
		return err
	}
	built, err := buildImages(ctx, o)
	if err != nil {
		return err
	}
	subjects, err := listImages(o, built)
	if err != nil {
		return err
	}
	archives, err := archive(ctx, o)
	if err != nil {
		return err
	}
	if err := pack(ctx, o, io.Discard); err != nil {
		return err
	}
	base := "https://github.com/tenon-numa/tenon/releases/download/v" + o.source.Version
	krew, err := page.Krew(o.source.Version, base, archives)
	if err != nil {
		return err
	}
	files := map[string][]byte{"tenon.yaml": krew, "NOTES.md": []byte(notes)}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(o.out, name), data, 0o644); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	return finish(ctx, o, subjects, stdout)
}

// listImages writes the list of images with their digests, and returns them as what provenance is about.
func listImages(o *options, built []image.Built) (subjects []page.Subject, err error) {
	var b bytes.Buffer
	for _, i := range built {
		name := fmt.Sprintf("%s/%s:%s", o.registry, i.Name, o.source.Version)
		fmt.Fprintf(&b, "%s@%s %s\n", name, i.Digest, i.Platform)
		subjects = append(subjects, page.Subject{Name: name, Digest: map[string]string{"sha256": strings.TrimPrefix(i.Digest, "sha256:")}})
	}
	if err := os.WriteFile(filepath.Join(o.out, "images.txt"), b.Bytes(), 0o644); err != nil {
		return nil, fmt.Errorf("write the list of images: %w", err)
	}
	return subjects, nil
}

// archive builds the kubectl plugin for all platforms.
func archive(ctx context.Context, o *options) (out []page.Archive, err error) {
	const plugin = "kubectl-tenon"
	license, err := os.ReadFile(filepath.Join(o.source.Root, "LICENSE"))
	if err != nil {
		return nil, fmt.Errorf("read the license: %w", err)
	}
	work, err := os.MkdirTemp("", "tenon-plugin-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for programs: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }()
	for _, on := range plugins() {
		fmt.Fprintf(os.Stderr, "build %s for %s\n", plugin, on)
		path := filepath.Join(work, plugin)
		if err := o.source.Compile(ctx, plugin, on, path); err != nil {
			return nil, err
		}
		program, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("read program: %w", err)
		}
		a := page.Archive{OS: on.OS, Arch: on.Architecture,
			Name: fmt.Sprintf("%s_v%s_%s_%s.tar.gz", plugin, o.source.Version, on.OS, on.Architecture)}
		files := []page.File{{Name: plugin, Mode: 0o755, Data: program}, {Name: "LICENSE", Mode: 0o644, Data: license}}
		pack := page.TarGz
		if on.OS == "windows" {
			files[0].Name += ".exe"
			a.Name, pack = strings.TrimSuffix(a.Name, ".tar.gz")+".zip", page.Zip
		}
		data, err := pack(files, o.source.Date)
		if err != nil {
			return nil, err
		}
		bill, err := o.source.BillOfMaterials(plugin, path)
		if err != nil {
			return nil, err
		}
		sum := sha256.Sum256(data)
		a.SHA256 = hex.EncodeToString(sum[:])
		if err := os.WriteFile(filepath.Join(o.out, a.Name), data, 0o644); err != nil {
			return nil, fmt.Errorf("write %s: %w", a.Name, err)
		}
		if err := os.WriteFile(filepath.Join(o.out, a.Name+".spdx.json"), bill, 0o644); err != nil {
			return nil, fmt.Errorf("write the bill of materials of %s: %w", a.Name, err)
		}
		out = append(out, a)
	}
	return out, nil
}

// finish writes the checksums of all files and the statement of provenance, and says what is to be signed.
func finish(ctx context.Context, o *options, subjects []page.Subject, stdout io.Writer) error {
	entries, err := os.ReadDir(o.out)
	if err != nil {
		return fmt.Errorf("read the folder of the release: %w", err)
	}
	var sums bytes.Buffer
	for _, e := range entries {
		if e.IsDir() || slices.Contains([]string{"SHA256SUMS", "provenance.intoto.json"}, e.Name()) {
			continue
		}
		data, err := os.ReadFile(filepath.Join(o.out, e.Name()))
		if err != nil {
			return fmt.Errorf("read %s: %w", e.Name(), err)
		}
		sum := sha256.Sum256(data)
		text := hex.EncodeToString(sum[:])
		fmt.Fprintf(&sums, "%s  %s\n", text, e.Name())
		subjects = append(subjects, page.Subject{Name: e.Name(), Digest: map[string]string{"sha256": text}})
	}
	version, err := exec.CommandContext(ctx, "go", "env", "GOVERSION").Output()
	if err != nil {
		return fmt.Errorf("ask for Go's version: %w", err)
	}
	statement, err := page.Provenance(subjects, o.source.Version, o.source.Commit, strings.TrimSpace(string(version)))
	if err != nil {
		return err
	}
	for name, data := range map[string][]byte{"SHA256SUMS": sums.Bytes(), "provenance.intoto.json": statement} {
		if err := os.WriteFile(filepath.Join(o.out, name), data, 0o644); err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
	}
	fmt.Fprintf(stdout, "%sin %s\n\nSign, with the key of the project:\n", sums.String(), o.out)
	fmt.Fprintf(stdout, "  cosign sign-blob %s\n", filepath.Join(o.out, "SHA256SUMS"))
	fmt.Fprintf(stdout, "  cosign attest-blob --predicate %s (the statement as it is)\n", filepath.Join(o.out, "provenance.intoto.json"))
	for _, s := range subjects {
		if strings.HasPrefix(s.Name, o.registry+"/") {
			fmt.Fprintf(stdout, "  cosign sign %s@sha256:%s\n", s.Name, s.Digest["sha256"])
		}
	}
	return nil
}

// buildImages builds the images of all programs.
func buildImages(ctx context.Context, o *options) (all []image.Built, err error) {
	for _, p := range image.Programs() {
		fmt.Fprintf(os.Stderr, "build %s %s\n", p.Name, o.source.Version)
		built, err := o.source.Write(ctx, p, o.platforms, o.registry, filepath.Join(o.out, "images"))
		if err != nil {
			return nil, err
		}
		all = append(all, built...)
	}
	return all, nil
}

// encode writes JSON for programs.
func encode(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
