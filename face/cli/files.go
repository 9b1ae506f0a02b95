package cli

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// This file finds the workload files that -f names, as kubectl does.

const (
	filesHelp = `File or directory with workloads: Pods, Deployments and others, as .yaml, .yml or .json; "-" is stdin. ` +
		"This flag can be repeated."
	recursiveHelp = "Read the directories below the directories of -f, too."
)

// workloadEndings are the endings of the files that are read of a directory.
var workloadEndings = []string{".json", ".yaml", ".yml"}

// expanded returns the given files, with each directory replaced by the files in it that end like a manifest, in order
// of their names. A directory without such files is an error. The files are not read yet.
func expanded(files []string, recursive bool) (out []workloadFile, err error) {
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil || !info.IsDir() {
			out = append(out, workloadFile{name: file}) // reading the file reports its error
			continue
		}
		found, err := manifestsIn(file, recursive)
		if err != nil {
			return nil, err
		}
		out = append(out, found...)
	}
	return out, nil
}

func manifestsIn(dir string, recursive bool) (out []workloadFile, err error) {
	top := strings.TrimSuffix(dir, "/") + "/" // so that a link to a directory is followed
	err = filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != top && !recursive:
			return fs.SkipDir
		case !d.IsDir() && slices.Contains(workloadEndings, filepath.Ext(path)):
			out = append(out, workloadFile{name: path, found: true})
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the directory of workload files: %w", err)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("the directory %s has no files that end with .yaml, .yml or .json", dir)
	}
	return out, nil
}
