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

// Image is the name of the only container image on a node. Its entry point waits, and touches as many MiB of memory as
// its first argument says.
const Image = "localhost/work:1"

const entryPoint = "/work"

// imageArchive returns a container image with one program in it, in the form that "docker save" writes:
// a manifest, a configuration, and one layer (Docker Image Specification v1.2).
func imageArchive(program []byte) ([]byte, error) {
	layer, err := tarball(tarFile{entryPoint[1:], program, 0o755})
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(layer)
	config, err := json.Marshal(map[string]any{
		"architecture": arch, "os": "linux",
		"config": map[string]any{"Entrypoint": []string{entryPoint}},
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(sum[:])}},
	})
	if err != nil {
		return nil, fmt.Errorf("write image configuration: %w", err)
	}
	manifest, err := json.Marshal([]map[string]any{{
		"Config": "config.json", "RepoTags": []string{Image}, "Layers": []string{"layer.tar"},
	}})
	if err != nil {
		return nil, fmt.Errorf("write image manifest: %w", err)
	}
	return tarball(tarFile{"manifest.json", manifest, 0o644}, tarFile{"config.json", config, 0o644},
		tarFile{"layer.tar", layer, 0o644})
}

type tarFile struct {
	name string
	data []byte
	mode int64
}

// tarball writes files with one date, so that equal contents make equal archives.
func tarball(files ...tarFile) ([]byte, error) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, f := range files {
		h := &tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.data)), ModTime: time.Unix(0, 0),
			Format: tar.FormatUSTAR}
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
