// Package source finds the checkout of this repository that the working directory is in, for lab parts that are built
// from source. It refuses other repositories; it builds nothing.
package source

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
)

// Root returns the folder of the checkout.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for ; ; dir = filepath.Dir(dir) {
		text, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && bytes.HasPrefix(text, []byte("module github.com/tenon-numa/tenon\n")) {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("this is no checkout of Tenon's repository: run this command in one")
		}
	}
}
