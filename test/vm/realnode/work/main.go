// Command work is the only program in the container image of real nodes: the pause process of every pod, and a
// workload that touches memory.
//
//	work           wait for a signal, and reap orphans
//	work MIB       touch that much memory first
//	work MIB end   end then, as an init container does
//	work MIB spin  keep one CPU busy from then on
//	work MIB talk  from then on send 4 MB/s to port 7 of the address that was last written to port 8
//
// It links nothing but the standard library, so that it runs in an image with no other file. It refuses
// more than 64 GiB.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
)

const maxMiB = 64 << 10

func main() {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGCHLD)
	var held []byte
	if len(os.Args) > 1 {
		mib, err := strconv.Atoi(os.Args[1])
		if err != nil || mib < 0 || mib > maxMiB {
			fmt.Fprintf(os.Stderr, "work: %q is not a number of MiB in 0..%d\n", os.Args[1], maxMiB)
			os.Exit(2)
		}
		held = touch(mib << 20)
		switch strings.Join(os.Args[2:], " ") {
		case "end":
			return
		case "spin":
			go spin()
		case "talk":
			go func() {
				fmt.Fprintf(os.Stderr, "work: %v\n", talk())
				os.Exit(1)
			}()
		}
	}
	for s := range signals {
		if s != syscall.SIGCHLD {
			break
		}
		reap()
	}
	runtime.KeepAlive(held)
}

// touch returns memory with every page written to.
func touch(n int) []byte {
	b := make([]byte, n)
	for i := 0; i < n; i += os.Getpagesize() {
		b[i] = 1
	}
	return b
}

// spin keeps a CPU busy.
func spin() {
	for n := 0; ; n++ {
		if n&(1<<30-1) == 0 {
			runtime.Gosched()
		}
	}
}

// reap collects ended children: the first process of a pod inherits orphans.
func reap() {
	for {
		if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 || err != nil {
			return
		}
	}
}
