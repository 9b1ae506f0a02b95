package realnode

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"
)

// Image is the name of the container image that every node has. Its entry point is the program work, which touches as
// many MiB of memory as its first argument requests, and waits.
const Image = "localhost/work:1"

const entryPoint = "/work"

// ToolImage is the name of an image with a shell and the programs of busybox, on nodes with systemd.
const ToolImage = "localhost/busybox:1"

// imageArchive returns a container image with some files in it, in the form that "docker save" writes: a manifest, a
// configuration, and one layer (Docker Image Specification v1.2).
func imageArchive(name string, entry []string, files ...tarFile) ([]byte, error) {
	layer, err := tarball(files...)
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(layer)
	config, err := json.Marshal(map[string]any{
		"architecture": arch, "os": "linux",
		"config": map[string]any{"Entrypoint": entry},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(sum[:])}},
	})
	if err != nil {
		return nil, fmt.Errorf("write image configuration: %w", err)
	}
	manifest, err := json.Marshal([]map[string]any{{
		"Config": "config.json", "RepoTags": []string{name}, "Layers": []string{"layer.tar"},
	}})
	if err != nil {
		return nil, fmt.Errorf("write image manifest: %w", err)
	}
	return tarball(tarFile{name: "manifest.json", data: manifest, mode: 0o644},
		tarFile{name: "config.json", data: config, mode: 0o644}, tarFile{name: "layer.tar", data: layer, mode: 0o644})
}

type tarFile struct {
	name string
	data []byte
	mode int64
	link string // the target of a symbolic link; empty for a file
}

// tarball writes files with one date, so that equal contents make equal archives.
func tarball(files ...tarFile) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		h := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.data)), ModTime: time.Unix(0, 0),
			Format: tar.FormatUSTAR}
		if f.link != "" {
			h.Typeflag, h.Linkname, h.Size = tar.TypeSymlink, f.link, 0
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("archive %s: %w", f.name, err)
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, fmt.Errorf("archive %s: %w", f.name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("end archive: %w", err)
	}
	return b.Bytes(), nil
}
