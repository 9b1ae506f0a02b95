// Command judge runs the resource managers of one release of the kubelet: it admits pods and prints what they got.
//
// It is built once for each release, with the modules that 1.NN.mod names and the tags of that release:
//
//	GOWORK=off go build -modfile=1.36.mod -tags $(./tags 1.36) -o judge-1.36 .
//
// The judge reads one request per line from its input and writes one answer per line to its output, both in JSON. It
// serves one machine at a time. While it processes a request, the judge may ask which devices a device plugin
// prefers: it writes one line with the question, and reads the next line of the input as the reply.
//
// Invariant: nothing is decided here. Policies, hints, allocations, state files and errors are those of the managers of
// k8s.io/kubernetes. The program refuses what the managers refuse, in the answer's error.
package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/go-logr/logr"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
	_ "k8s.io/kubernetes/pkg/features" // registers the gates
)

// maxLine bounds the length of a request, in bytes.
const maxLine = 64 << 20

func main() {
	gates := flag.String("gates", "", "feature gates, such as A=true,B=false")
	flag.Parse()
	klog.SetLogger(logr.Discard())
	if *gates != "" {
		if err := utilfeature.DefaultMutableFeatureGate.Set(*gates); err != nil {
			fmt.Fprintln(os.Stderr, "set feature gates:", err)
			os.Exit(2)
		}
	}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, maxLine)
	out := json.NewEncoder(os.Stdout)
	j := &judge{ask: func(q question) (preference, error) { return ask(lines, out, q) }}
	for lines.Scan() {
		var r request
		a := answer{}
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			a.Error = fmt.Sprintf("read request: %v", err)
		} else {
			a = j.do(r)
		}
		if err := out.Encode(a); err != nil {
			fmt.Fprintln(os.Stderr, "write answer:", err)
			os.Exit(1)
		}
	}
	if err := lines.Err(); err != nil {
		fmt.Fprintln(os.Stderr, "read requests:", err)
		os.Exit(1)
	}
}

// ask writes a question to the output, and reads the reply from the next line of the input: which devices the plugin
// prefers.
func ask(lines *bufio.Scanner, out *json.Encoder, q question) (p preference, err error) {
	if err = out.Encode(answer{Ask: &q}); err != nil {
		return p, fmt.Errorf("ask for a preference: %w", err)
	}
	if !lines.Scan() {
		return p, fmt.Errorf("ask for a preference: no answer")
	}
	if err = json.NewDecoder(strings.NewReader(lines.Text())).Decode(&p); err != nil {
		return p, fmt.Errorf("ask for a preference: %w", err)
	}
	return p, nil
}
