package pod

// MoveCostAnnotation is what it costs to move a pod so that others get room: a number of 1 to 1000, 1 without it.
const MoveCostAnnotation = "tenon.sh/move-cost"
