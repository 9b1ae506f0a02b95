package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// This file answers the question of defrag to other programs than the command.

// MoveQuestion asks which pods have to move so that pods get room.
type MoveQuestion struct {
	// For are the pods that wait, NAMESPACE/NAME.
	For []string
	// Namespaces are those whose pods may move; empty: all.
	Namespaces []string
	// MaxPriority is the highest priority of pods that may move; nil: any.
	MaxPriority *int32
	// MinAge is how long a pod must have run before it may move.
	MinAge time.Duration
	// LocalData lets pods move that keep data in an emptyDir, which is lost.
	LocalData bool
	// Most is how many pods may move, 1 to [MaxMoves].
	Most int
}

// MoveAnswer is the answer to a MoveQuestion.
type MoveAnswer struct {
	// Plan is what is to be done; nil if there is no plan. It has no moves if nothing has to move.
	Plan *MovePlan
	// Why is the reason if there is no plan, as one line.
	Why string
}

// PlanMoves answers a question as the command defrag does. It reads the cluster by s.Stages, which must have Moving. No
// pods move for a pod whose devices (DRA) are not judged. An error means that there is no answer.
func (s Setup) PlanMoves(ctx context.Context, q MoveQuestion) (MoveAnswer, error) {
	a, c, f, err := s.posed(ctx, q)
	if err != nil {
		return MoveAnswer{}, err
	}
	d, err := a.defragmented(c, f)
	if err != nil {
		return MoveAnswer{}, err
	}
	if len(d.tasks) == 0 && len(d.notJudged) > 0 {
		return MoveAnswer{Why: strings.Join(d.notJudged, "; ")}, nil
	}
	if d.result.Plan == nil {
		return MoveAnswer{Why: oneLine(d.writeNone, d.writeFixed)}, nil
	}
	plan := d.order()
	return MoveAnswer{Plan: &plan}, nil
}

// PlanAgain computes the plan for a question again, as an [Again].
func (s Setup) PlanAgain(ctx context.Context, q MoveQuestion, left []PodOn) (MovePlan, error) {
	a, c, f, err := s.posed(ctx, q)
	if err != nil {
		return MovePlan{}, err
	}
	return a.again(c, f, left)
}

// posed returns what asks a question, as the command with its flags.
func (s Setup) posed(ctx context.Context, q MoveQuestion) (*app, *cobra.Command, defragFlags, error) {
	var f defragFlags
	if s.Stages.Moving == nil {
		return nil, nil, f, errNoMoves
	}
	c := &cobra.Command{}
	c.SetContext(ctx)
	c.SetOut(io.Discard)
	c.SetErr(io.Discard)
	f.bind(c)
	f.pods, f.namespaces, f.minAge, f.localData, f.most = q.For, q.Namespaces, q.MinAge, q.LocalData, q.Most
	f.automatic = true
	if q.MaxPriority != nil {
		f.maxPriority = int(*q.MaxPriority)
	}
	if err := f.check(); err != nil {
		return nil, nil, f, fmt.Errorf("the question which pods to move: %w", err)
	}
	return newApp(s), c, f, nil
}

// oneLine returns parts of the output as one line.
func oneLine(parts ...func(b *bufio.Writer, limit int)) string {
	var b strings.Builder
	w := bufio.NewWriter(&b)
	for _, write := range parts {
		write(w, fewNodes)
	}
	_ = w.Flush() // to memory
	return strings.Join(strings.Fields(b.String()), " ")
}
