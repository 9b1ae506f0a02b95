package releases

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
)

// Checkout returns the folder of the checkout of this repository that the working directory is in, and an error in
// other repositories.
func Checkout() (string, error) {
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
