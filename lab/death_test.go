package lab_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/tenon-numa/tenon/lab"
)

// parentEnv makes the test binary a program that starts a cluster in the directory that it names, and then waits for
// its end.
const parentEnv = "TENON_LAB_TEST_PARENT"

func beParent(dir string) {
	c, err := lab.Start(context.Background(), lab.Config{Dir: dir, Nodes: []lab.Node{{Name: "n", Machine: "gpu-8"}}})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(c.Dir)
	<-c.Done()
}

// When a program is killed, its nodes end too, and remove the directory.
func TestParentDies(t *testing.T) {
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), parentEnv+"="+t.TempDir())
	parent.Stderr = os.Stderr
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() {
		t.Fatalf("no cluster: %v", parent.Wait())
	}
	dir := lines.Text()
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	parent.Wait() // its error is that it was killed
	err = wait.PollUntilContextTimeout(t.Context(), 20*time.Millisecond, 20*time.Second, true,
		func(context.Context) (bool, error) {
			_, err := os.Stat(dir)
			return errors.Is(err, fs.ErrNotExist), nil
		})
	if err != nil {
		t.Errorf("directory %s is left after the death of the program", dir)
	}
}
