package queue_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/tenon-numa/tenon/api/provisioning"
	"github.com/tenon-numa/tenon/cmd/commands"
	"github.com/tenon-numa/tenon/face/cli"
	"github.com/tenon-numa/tenon/ops/room"
)

// A program that evicts pods by itself may refuse one in the middle of a plan, such as by a limit that others have used
// up. Then no other pod is evicted, and the pod that was evicted runs again. What its place leaves behind is swept once
// it keeps nothing.
func TestARefusedEvictionStopsThePlan(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Minute)
	defer cancel()
	s, tenon := newSets(ctx, t)
	maker, err := commands.NewRoomMaker(s.RESTConfig(), commands.MoveBounds{Refuses: func(*v1.Pod) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	errLimit := errors.New("the limit is reached")
	var goal string
	var before, evicted []string
	for k := *seed; ; k++ {
		var p planned
		if goal, _, p = s.scatter(ctx, t, rand.New(rand.NewPCG(k, 4)), tenon, fmt.Sprint("r", k)); len(p.Moves) >= 2 {
			before = s.uids(ctx, t)
			evicted, err = s.refused(ctx, t, maker, goal, errLimit)
			if len(evicted) > 0 || err == nil || !strings.Contains(err.Error(), "no place can be kept") {
				break
			}
			t.Logf("another plan: %v", err) // all successors have room only where the plan makes some
		}
		s.clear(ctx, t, goal)
	}
	if !errors.Is(err, errLimit) || !strings.Contains(err.Error(), "1 of ") {
		t.Errorf("the error is %v", err)
	}
	if _, err := s.pods.Until(ctx, func(pods []*v1.Pod) bool {
		return len(pods) == len(before) && !slices.ContainsFunc(pods, func(p *v1.Pod) bool {
			return p.Status.Phase != v1.PodRunning && p.Name != goal
		})
	}); err != nil {
		t.Errorf("not all pods run: %v", err)
	}
	after := s.uids(ctx, t)
	if gone := slices.DeleteFunc(before, func(uid string) bool { return slices.Contains(after, uid) }); !slices.Equal(gone,
		evicted) {
		t.Errorf("pods %v are gone, and %v was evicted", gone, evicted)
	}
	s.swept(ctx, t, maker)
}

// refused carries out a plan for a pod, and refuses the second eviction with an error. It returns the pod that was
// evicted, and the error of the plan.
func (s *sets) refused(ctx context.Context, t *testing.T, maker *commands.RoomMaker, goal string, refusal error) (
	evicted []string, err error) {
	t.Helper()
	ask, err := maker.Look(ctx)
	if err != nil {
		t.Fatal(err)
	}
	q := cli.MoveQuestion{For: []string{"default/" + goal}, Most: 10}
	answer, err := ask(ctx, q)
	if err != nil || answer.Plan == nil {
		t.Fatalf("no plan: %s: %v", answer.Why, err)
	}
	err = maker.Carry(ctx, q, *answer.Plan, room.Options{Keep: true, Whole: true,
		AnswerWithin: 30 * time.Second, EvictWithin: 30 * time.Second, RunWithin: 30 * time.Second,
		Say: func(line string) { t.Log(line) },
		Evict: func(ctx context.Context, p *v1.Pod) error {
			if len(evicted) > 0 {
				return refusal
			}
			evicted = append(evicted, string(p.UID))
			return s.client.PolicyV1().Evictions(p.Namespace).Evict(ctx, &policyv1.Eviction{
				ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}})
		}})
	return evicted, err
}

// swept fails the test unless the one request that is left is deleted, with its template, once it is over.
func (s *sets) swept(ctx context.Context, t *testing.T, maker *commands.RoomMaker) {
	t.Helper()
	for _, want := range []int{1, 0} {
		if err := maker.Sweep(ctx); err != nil {
			t.Fatal(err)
		}
		list, err := s.requests.List(ctx, metav1.ListOptions{})
		if err != nil || len(list.Items) != want {
			t.Fatalf("%d requests are left, want %d: %v", len(list.Items), want, err)
		}
		templates, err := s.client.CoreV1().PodTemplates("default").List(ctx, metav1.ListOptions{})
		if err != nil || len(templates.Items) != want {
			t.Fatalf("%d templates are left, want %d: %v", len(templates.Items), want, err)
		}
		for i := range list.Items { // in place of the scheduler, after 15 minutes
			s.expire(ctx, t, &list.Items[i])
		}
	}
}

// expire writes that a request is over. The scheduler may write the status at the same time.
func (s *sets) expire(ctx context.Context, t *testing.T, r *provisioning.Request) {
	t.Helper()
	if err := wait.PollUntilContextCancel(ctx, poll, true, func(ctx context.Context) (bool, error) {
		now, err := s.requests.In(r.Namespace).Get(ctx, r.Name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		meta.SetStatusCondition(&now.Status.Conditions, metav1.Condition{Type: provisioning.BookingExpired,
			Status: metav1.ConditionTrue, Reason: provisioning.BookingExpired})
		return s.requests.SetStatus(ctx, now) == nil, nil
	}); err != nil {
		t.Fatal(err)
	}
}
