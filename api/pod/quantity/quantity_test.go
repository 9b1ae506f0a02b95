package quantity

import (
	"fmt"
	"math"
	"math/big"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Expanding any of these to digits exhausts time and memory.
var wild = []string{
	"1e2000000000", "-1e2000000000", "9e2147483647", "0.5e2000000000", "1e999999999", "123456789012345e1999999999",
	"0e2000000000", "0.000e2000000000", "00.0e2147483647", "-0e1999999999", "1e99999999999",
}

func TestWildExponentsAreComparedAndWritten(t *testing.T) {
	for _, text := range wild {
		q, err := resource.ParseQuantity(text)
		if err != nil {
			continue // the API server refuses it
		}
		tiny := q.IsZero()
		if got := Within(q, math.MaxInt64); got != tiny {
			t.Errorf("%s is within an int64: %t, want %t", text, got, tiny)
		}
		if got := Text(q); len(got) > 50 || got == "" {
			t.Errorf("%s is written as %q", text, got)
		}
		c := Clamp(q)
		if c.Sign() != q.Sign() || c.CmpInt64(math.MaxInt64) > 0 || c.CmpInt64(-math.MaxInt64) < 0 {
			t.Errorf("%s is clamped to %s", text, c.String())
		}
	}
}

// A pod is summed by Kubernetes' own functions once it is clamped.
func TestAClampedPodIsSummedAtOnce(t *testing.T) {
	list := func(texts ...string) v1.ResourceList {
		out := v1.ResourceList{}
		for i, text := range texts {
			out[v1.ResourceName([]string{"cpu", "memory", "a.com/gpu"}[i])] = resource.MustParse(text)
		}
		return out
	}
	pod := &v1.Pod{Spec: v1.PodSpec{
		InitContainers: []v1.Container{{Resources: v1.ResourceRequirements{Requests: list("1e2000000000")}}},
		Containers: []v1.Container{
			{Resources: v1.ResourceRequirements{Requests: list("1", "0e2000000000"), Limits: list("1", "-1e2000000000")}},
			{Resources: v1.ResourceRequirements{Requests: list("2", "7", "1e1999999999")}},
		},
		Overhead:  list("1e2000000000"),
		Resources: &v1.ResourceRequirements{Requests: list("1e2000000000"), Limits: list("0e2000000000")},
	}}
	clamped := ClampPod(pod)
	total := resource.Quantity{}
	eachList(clamped, func(list *v1.ResourceList) {
		for _, q := range *list {
			total.Add(q)
			total.Sub(q)
			total.Add(q)
		}
	})
	if got := total.String(); len(got) > 30 {
		t.Errorf("the sum is %s", got)
	}
	if pod.Spec.Containers[0].Resources.Requests.Memory().AsDec().Scale() == 0 {
		t.Error("the pod itself was changed")
	}
	if again := ClampPod(clamped); again != clamped {
		t.Error("a pod with nothing to clamp is copied")
	}
}

// FuzzWithin compares with exact rational arithmetic if the exponent allows it. The text of a quantity is made of
// numbers: the parser itself expands some texts, and the API server parses first.
func FuzzWithin(f *testing.F) {
	for _, exponent := range []uint32{0, 1, 11, 15, 18, 30, 99, 1999999999, math.MaxInt32} {
		for _, mantissa := range []int64{0, 1, -1, 1 << 50, 1<<50 + 1, 112589990684262, -1234567, 15} {
			f.Add(mantissa, uint8(0), exponent)
			f.Add(mantissa, uint8(3), exponent)
		}
	}
	f.Fuzz(func(t *testing.T, mantissa int64, decimals uint8, exponent uint32) {
		exponent, decimals = exponent&math.MaxInt32, decimals%4
		if exponent > 99 {
			mantissa %= 1_000_000_000 // of more digits the parser makes what they stand for
		}
		text := fmt.Sprintf("%d.%0*de%d", mantissa, decimals, 0, exponent)
		q, err := resource.ParseQuantity(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		const most = 1 << 50
		got := Within(q, most)
		c := Clamp(q)
		c.Add(Clamp(q))
		if len(Text(q)) > 50 || len(c.String()) > 60 {
			t.Errorf("%s is written as %s, and twice as much as %s", text, Text(q), c.String())
		}
		in := mantissa == 0
		if exponent <= 99 {
			exact, _ := new(big.Rat).SetString(text)
			in = exact.Sign() >= 0 && exact.Cmp(new(big.Rat).SetInt64(most)) <= 0
		}
		if in != got {
			t.Errorf("Within(%s, 2^50) = %t, want %t", text, got, in)
		}
	})
}
