// Program is a small program with a dependency, for tests that make images.
package main

import (
	"os"

	"github.com/google/go-containerregistry/pkg/v1/types"
)

func main() { os.Stdout.WriteString(string(types.OCILayer)) }
