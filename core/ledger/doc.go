// Package ledger keeps, for every node of a cluster, its machine, its rules, and the holdings of its pods. A holding
// is observed if the node reported it, and predicted if it was computed for an assumed pod: one that is reserved or
// bound, and is in no report yet.
//
// A [Book] takes events and returns immutable values, [state.Node] and [Snapshot], so any number of readers decide
// without locks. One function decides whether a pod fits: [state.Node.Place]. A book refuses to reserve what does not
// fit: it computes the verdict again under the lock.
//
// What a pod gets depends on the order in which its node admits pods. A kubelet sorts the pods that reach it together
// by creation time. So assumed pods take turns ([Book.Turn]). A pod may be bound when every pod before it is known to
// be admitted, is bound and older, has the same shape, or fits together with it in any order. Pods that other
// schedulers bind take no turn: the node may then be in several states ([state.Node.Others]), and a verdict holds if
// it holds in all of them. If something is released beside an assumed pod, what the pod got is uncertain: the node is
// unsettled until its next report ([state.Node.Unsettled]). docs/design/order.md explains the rules.
package ledger
