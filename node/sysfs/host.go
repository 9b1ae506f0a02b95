package sysfs

import (
	"io/fs"
	"os"
)

// Host is the tree of the machine that this process runs on. In a container, /sys shows the host's
// hardware as long as the runtime mounts it, which is the default.
func Host() fs.FS { return os.DirFS("/") }
