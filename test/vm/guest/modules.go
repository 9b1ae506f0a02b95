package guest

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// module is a loaded kernel module.
type module struct {
	name string // the kernel's name, with "_" for "-"
	data []byte
}

// maxModuleSize bounds the size of a module's file, and maxModules their number.
const (
	maxModuleSize = 64 << 20
	maxModules    = 100
)

// loadModules returns the named modules and all modules that they depend on, each after its dependencies. It omits
// modules that are built into the kernel. An unknown name is an error.
func loadModules(dir string, names []string) ([]module, error) {
	if len(names) == 0 {
		return nil, nil
	}
	files, err := moduleFiles(dir)
	if err != nil {
		return nil, err
	}
	var out []module
	var add func(name string) error
	add = func(name string) error {
		name = strings.ReplaceAll(name, "-", "_")
		file, ok := files[name]
		switch {
		case slices.ContainsFunc(out, func(m module) bool { return m.name == name }) || ok && file == "":
			return nil
		case !ok:
			return fmt.Errorf("kernel in %s has no module %q", dir, name)
		case len(out) == maxModules:
			return fmt.Errorf("more than %d modules", maxModules)
		}
		data, err := readModule(file)
		if err != nil {
			return err
		}
		depends, err := dependencies(data)
		if err != nil {
			return fmt.Errorf("kernel module %s: %w", file, err)
		}
		delete(files, name) // so that a module that depends on itself counts as missing
		for _, other := range depends {
			if err := add(other); err != nil {
				return fmt.Errorf("kernel module %s: %w", name, err)
			}
		}
		out = append(out, module{name, data})
		return nil
	}
	for _, name := range names {
		if err := add(name); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// moduleFiles returns the path of every module's file, by the module's name. The path is empty for a module that is
// built into the kernel.
func moduleFiles(dir string) (map[string]string, error) {
	out := map[string]string{}
	addFile := func(path, file string) {
		if name, _, ok := strings.Cut(filepath.Base(path), ".ko"); ok {
			out[strings.ReplaceAll(name, "-", "_")] = file
		}
	}
	builtin, err := os.ReadFile(filepath.Join(dir, "modules.builtin"))
	if err != nil {
		return nil, fmt.Errorf("find kernel modules: %w", err)
	}
	for line := range strings.Lines(string(builtin)) {
		addFile(strings.TrimSpace(line), "")
	}
	err = filepath.WalkDir(filepath.Join(dir, "kernel"), func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			addFile(path, path)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("find kernel modules: %w", err)
	}
	return out, nil
}

// readModule reads a module's file, which newer releases of Debian compress.
func readModule(file string) ([]byte, error) {
	info, err := os.Stat(file)
	if err != nil {
		return nil, fmt.Errorf("read kernel module: %w", err)
	}
	if info.Size() > maxModuleSize {
		return nil, fmt.Errorf("kernel module %s has %d bytes, the most is %d", file, info.Size(), maxModuleSize)
	}
	if !strings.HasSuffix(file, ".xz") {
		return os.ReadFile(file)
	}
	out, err := exec.Command("xz", "-dc", file).Output()
	if err != nil {
		return nil, fmt.Errorf("unpack kernel module %s: %w", file, err)
	}
	return out, nil
}

// dependencies returns the names of the modules that a module needs: the entry "depends" of its section .modinfo, in
// which zero bytes separate the entries.
func dependencies(data []byte) ([]string, error) {
	f, err := elf.NewFile(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	s := f.Section(".modinfo")
	if s == nil {
		return nil, errors.New("no section .modinfo")
	}
	info, err := s.Data()
	if err != nil {
		return nil, err
	}
	for word := range strings.SplitSeq(string(info), "\x00") {
		if list, ok := strings.CutPrefix(word, "depends="); ok && list != "" {
			return strings.Split(list, ","), nil
		}
	}
	return nil, nil
}
