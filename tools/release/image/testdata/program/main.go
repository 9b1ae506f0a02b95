// Program stands for a program that images are made of: it is small, and has a dependency.
package main

import (
	"os"

	"github.com/google/go-containerregistry/pkg/v1/types"
)

func main() { os.Stdout.WriteString(string(types.OCILayer)) }
