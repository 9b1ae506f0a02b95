package kubelet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"k8s.io/apimachinery/pkg/util/yaml"
	kubeletv1beta1 "k8s.io/kubelet/config/v1beta1"
	sigsyaml "sigs.k8s.io/yaml"
)

// This file reads the files that a kubelet reads when it starts: its configuration file and the drop-in files beside it
// (KEP-3983; cmd/kubelet/app/server.go, mergeKubeletConfigurations). Flags of the kubelet override both, and are in no
// file.

// Files are the files of a kubelet's configuration.
type Files struct {
	// File is the path of --config; empty if the kubelet has none.
	File string
	// Dir is the directory of --config-dir; empty if the kubelet has none.
	Dir string
}

// DropInSuffix ends the names of the files that count in a drop-in directory.
const DropInSuffix = ".conf"

// Bounds on a drop-in directory. A KubeletConfiguration has a few kilobytes. Merging megabytes would take seconds of
// CPU time with each reading.
const (
	maxDropIns     = 256     // files that count
	maxDropInBytes = 1 << 20 // bytes of all of them
	maxDropInsSeen = 4096    // files and directories of any name
)

// Configuration reads File, and merges into it the files of Dir and its subdirectories, in lexical order of their
// paths. Each of these is a JSON merge patch (RFC 7396) of the result so far. So a list replaces a list, a map is
// merged by key, and null removes a field.
func (f Files) Configuration(context.Context) (Configuration, error) {
	merged, err := f.base()
	if err != nil {
		return Configuration{}, err
	}
	patches, err := f.dropIns()
	if err != nil {
		return Configuration{}, err
	}
	for _, p := range patches {
		merged = mergePatch(merged, p).(map[string]any)
	}
	data, err := json.Marshal(merged)
	if err != nil {
		return Configuration{}, fmt.Errorf("merge kubelet configuration: %w", err)
	}
	var in kubeletv1beta1.KubeletConfiguration
	// For merged files the kubelet ignores the case of field names (encoding/json), unlike decode.
	if err := json.Unmarshal(data, &in); err != nil {
		return Configuration{}, fmt.Errorf("kubelet configuration %s with %d drop-in files: %w", f.File, len(patches), err)
	}
	c, err := configuration(&in)
	if err != nil {
		return c, fmt.Errorf("kubelet configuration %s with %d drop-in files: %w", f.File, len(patches), err)
	}
	return c, nil
}

// base reads File as a tree of JSON values. Unknown fields are lost, because base decodes the file into the kubelet's
// type first. Without a File the tree is an empty KubeletConfiguration.
func (f Files) base() (map[string]any, error) {
	var in kubeletv1beta1.KubeletConfiguration
	if f.File != "" {
		data, err := readPath(f.File)
		if err == nil {
			err = decode(data, &in)
		}
		if err == nil {
			err = checkKind(in.GroupVersionKind())
		}
		if err != nil {
			return nil, fmt.Errorf("kubelet configuration %s: %w", f.File, err)
		}
	}
	data, err := json.Marshal(&in)
	if err != nil {
		return nil, fmt.Errorf("kubelet configuration %s: %w", f.File, err)
	}
	tree := map[string]any{}
	err = json.Unmarshal(data, &tree)
	return tree, err
}

// dropIns returns the contents of the drop-in files in lexical order of their paths; nil if Dir is empty.
func (f Files) dropIns() (out []map[string]any, err error) {
	if f.Dir == "" {
		return nil, nil
	}
	seen, total := 0, int64(0)
	err = filepath.WalkDir(f.Dir, func(path string, entry fs.DirEntry, err error) error {
		if seen++; seen > maxDropInsSeen {
			return fmt.Errorf("more than %d files and directories; name a directory that has drop-in files only", maxDropInsSeen)
		}
		if err != nil || entry.IsDir() || filepath.Ext(entry.Name()) != DropInSuffix {
			return err
		}
		if len(out) == maxDropIns {
			return fmt.Errorf("more than %d drop-in files", maxDropIns)
		}
		patch, size, err := readDropIn(path)
		if err != nil {
			return fmt.Errorf("drop-in file %s: %w", path, err)
		}
		if total += size; total > maxDropInBytes {
			return fmt.Errorf("drop-in files up to %s have more than %d bytes together", path, maxDropInBytes)
		}
		out = append(out, patch)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("kubelet configuration directory %s: %w", f.Dir, err)
	}
	return out, nil
}

// readDropIn returns the content of a file, and its size in bytes.
func readDropIn(path string) (patch map[string]any, size int64, err error) {
	data, err := readPath(path)
	if err != nil {
		return nil, 0, err
	}
	if len(data) == 0 {
		return nil, 0, errors.New("file is empty")
	}
	var object kubeletv1beta1.KubeletConfiguration
	if err := decode(data, &object.TypeMeta); err != nil {
		return nil, 0, err
	}
	if err := checkKind(object.GroupVersionKind()); err != nil {
		return nil, 0, err
	}
	patch = map[string]any{}
	if err := decode(data, &patch); err != nil {
		return nil, 0, err
	}
	return patch, int64(len(data)), checkRepeats(data)
}

// checkRepeats returns an error if a drop-in file has a key twice. A kubelet does not start with such a drop-in file,
// although it starts with such a main file (pkg/kubelet/kubeletconfig/util/codec, DecodeKubeletConfigurationIntoJSON:
// it decodes strictly).
func checkRepeats(data []byte) error {
	if yaml.IsJSONBuffer(data) {
		var b bytes.Buffer
		if err := json.Compact(&b, data); err != nil { // without the tabs that JSON allows and YAML does not
			return fmt.Errorf("parse as JSON: %w", err)
		}
		data = b.Bytes()
	}
	_, err := sigsyaml.YAMLToJSONStrict(data)
	if err != nil {
		return fmt.Errorf("parse strictly, as the kubelet does with drop-in files: %w", err)
	}
	return nil
}

func readPath(path string) ([]byte, error) {
	dir, file := filepath.Split(path)
	if dir == "" {
		dir = "."
	}
	return read(Dir(dir), file, maxConfig)
}

// mergePatch applies a JSON merge patch (RFC 7396, section 2). Neither value is changed.
func mergePatch(to, patch any) any {
	p, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	out := map[string]any{}
	if t, ok := to.(map[string]any); ok {
		for k, v := range t {
			out[k] = v
		}
	}
	for k, v := range p {
		if v == nil {
			delete(out, k)
		} else {
			out[k] = mergePatch(out[k], v)
		}
	}
	return out
}
