package conformance

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

//go:embed machines/*.txt
var described embed.FS

//go:embed cases/*.yaml
var builtIn embed.FS

// Cases returns the built-in cases in ascending order of name.
func Cases() ([]*Case, error) { return Read(builtIn, "cases") }

// maxCase bounds the size of a case's file, in bytes.
const maxCase = 1 << 16

// Read returns the cases in the files NAME.yaml of a folder, in ascending order of name.
func Read(fsys fs.FS, dir string) (out []*Case, err error) {
	files, err := fs.Glob(fsys, path.Join(dir, "*.yaml"))
	if err != nil {
		return nil, fmt.Errorf("list cases: %w", err)
	}
	slices.Sort(files)
	for _, f := range files {
		info, err := fs.Stat(fsys, f)
		if err == nil && info.Size() > maxCase {
			err = fmt.Errorf("larger than %d bytes", maxCase)
		}
		if err != nil {
			return nil, fmt.Errorf("read case %s: %w", f, err)
		}
		text, err := fs.ReadFile(fsys, f)
		if err != nil {
			return nil, fmt.Errorf("read case %s: %w", f, err)
		}
		c, err := Parse(strings.TrimSuffix(path.Base(f), ".yaml"), text)
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no cases in %s", dir)
	}
	return out, nil
}

// Short returns about a quarter of the cases, spread over all levels.
func Short(cases []*Case) (out []*Case) {
	seen := map[Level]int{}
	for _, c := range cases {
		if seen[c.Level]%4 == 0 {
			out = append(out, c)
		}
		seen[c.Level]++
	}
	return out
}
