package releases

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
)

// Checkout returns the root folder of the checkout of this repository that contains the working directory. In another
// repository it returns an error.
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
