package image

import (
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/tenon-numa/tenon/tools/release/archive"
)

// Built is one image of a release.
type Built struct {
	Name     string `json:"name"`     // tenon-agent
	Platform string `json:"platform"` // linux/amd64; empty for the list of all platforms
	Digest   string `json:"digest"`
	Size     int64  `json:"bytes"` // compressed; 0 for the list
}

// Write compiles a program for each platform and stores its images; see [Source.Store].
func (s Source) Write(ctx context.Context, p Program, platforms []v1.Platform,
	registry, out string) ([]Built, error) {
	work, err := os.MkdirTemp("", "tenon-image-")
	if err != nil {
		return nil, fmt.Errorf("make a folder for programs: %w", err)
	}
	defer func() { _ = os.RemoveAll(work) }()
	var files []Binary
	for _, platform := range platforms {
		b := Binary{platform, filepath.Join(work, platform.Architecture)}
		if err := s.Compile(ctx, p, platform, b.Path); err != nil {
			return nil, err
		}
		files = append(files, b)
	}
	return s.Store(p, files, registry, out)
}

// Binary is a program that was compiled for a platform.
type Binary struct {
	Platform v1.Platform
	Path     string
}

// BillName returns the name of the file that has the bill of materials of a program's image for a platform. The file
// is beside the layout.
func BillName(program, platform string) string {
	return program + "_" + strings.ReplaceAll(platform, "/", "_") + ".spdx.json"
}

// Store writes the images of a program into out/NAME, an OCI image layout, and as one file, out/NAME.tar, for `ctr
// images import`, `kind load image-archive` and `podman load`. The name of the image is registry/NAME:VERSION. The
// bills of materials are in the layout, and also files beside it. The tar file has none, because kind unpacks every
// entry of its index as an image. Store returns the image of each platform, and after them the list of all platforms.
func (s Source) Store(p Program, files []Binary, registry, out string) ([]Built, error) {
	dir := filepath.Join(out, p.Name)
	if err := os.RemoveAll(dir); err != nil {
		return nil, fmt.Errorf("make room for %s: %w", p.Name, err)
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return nil, fmt.Errorf("make the folder of images: %w", err)
	}
	list := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	var built []Built
	var attached []v1.Image
	for _, f := range files {
		img, bill, err := s.makeImage(p, f, out)
		if err != nil {
			return nil, err
		}
		b, err := builtImage(p.Name, f.Platform, img)
		if err != nil {
			return nil, err
		}
		built, attached = append(built, b), append(attached, bill)
		list = mutate.AppendManifests(list, mutate.IndexAddendum{Add: img, Descriptor: v1.Descriptor{Platform: &f.Platform}})
	}
	list = mutate.Annotations(list, s.Labels(p)).(v1.ImageIndex)
	digest, err := list.Digest()
	if err != nil {
		return nil, fmt.Errorf("digest of %s: %w", p.Name, err)
	}
	built = append(built, Built{Name: p.Name, Digest: digest.String()})
	at, err := store(dir, registry+"/"+p.Name+":"+s.Version, s.Version, list)
	if err != nil {
		return nil, fmt.Errorf("store %s: %w", p.Name, err)
	}
	if err := s.pack(dir, dir+".tar"); err != nil {
		return nil, err
	}
	for _, bill := range attached {
		if err := at.AppendImage(bill); err != nil {
			return nil, fmt.Errorf("store the bill of materials of %s: %w", p.Name, err)
		}
	}
	return built, nil
}

// makeImage makes the image of a program for a platform, and its bill of materials, which it also writes into a
// folder.
func (s Source) makeImage(p Program, b Binary, out string) (img, bill v1.Image, err error) {
	if img, err = s.Image(p, b.Platform, b.Path); err != nil {
		return nil, nil, err
	}
	document, err := s.BillOfMaterials(p.Name, b.Path)
	if err != nil {
		return nil, nil, err
	}
	if err := os.WriteFile(filepath.Join(out, BillName(p.Name, b.Platform.String())), document, 0o644); err != nil {
		return nil, nil, fmt.Errorf("write the bill of materials of %s: %w", p.Name, err)
	}
	bill, err = Attach(document, img)
	return img, bill, err
}

func builtImage(name string, platform v1.Platform, img v1.Image) (Built, error) {
	digest, err := img.Digest()
	if err != nil {
		return Built{}, fmt.Errorf("digest of %s: %w", name, err)
	}
	manifest, err := img.Manifest()
	if err != nil {
		return Built{}, fmt.Errorf("manifest of %s: %w", name, err)
	}
	b := Built{Name: name, Platform: platform.String(), Digest: digest.String(), Size: manifest.Config.Size}
	for _, l := range manifest.Layers {
		b.Size += l.Size
	}
	return b, nil
}

// store writes a list of images as an OCI image layout. Both names are annotations: containerd reads the whole name,
// others the tag.
func store(dir, name, tag string, list v1.ImageIndex) (layout.Path, error) {
	at, err := layout.Write(dir, empty.Index)
	if err != nil {
		return "", fmt.Errorf("begin the layout: %w", err)
	}
	names := map[string]string{"io.containerd.image.name": name, "org.opencontainers.image.ref.name": tag}
	if err := at.AppendIndex(list, layout.WithAnnotations(names)); err != nil {
		return "", fmt.Errorf("write the images: %w", err)
	}
	return at, nil
}

// pack writes a folder as a tar file, in the order of names and with the release's date.
func (s Source) pack(dir, path string) error {
	root := os.DirFS(dir)
	var files []archive.File
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(root, name)
		files = append(files, archive.File{Name: name, Mode: 0o644, Data: data})
		return err
	})
	var b bytes.Buffer
	if err == nil {
		err = archive.Tar(&b, files, s.Date)
	}
	if err == nil {
		err = os.WriteFile(path, b.Bytes(), 0o644)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}
