package sim

// alibaba is the cluster and the mix of Alibaba's GPU cluster trace of 2023 (cluster-trace-gpu-v2023 of
// github.com/alibaba/clusterdata), published with Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing
// Workloads with Fragmentation Gradient Descent", USENIX ATC '23. It has the trace's numbers of machines by size, its
// 8152 pods by size, and how long pods ran, by their number of GPUs. There are five times for each number, the 10th,
// 30th, 50th, 70th and 90th percentile of the trace, and all five are equally probable.
//
// The following is changed. CPUs of pods are rounded up to whole ones and to the sizes below, so that they are
// exclusive. Memory is the 75th percentile of the pods of such a size; pods of the smallest size have one of two
// amounts of memory. The 3078 pods that ask for a part of a GPU get a whole one: without a sharing device plugin, they
// would have to ask for that. All GPUs are of one model. Every machine has two more CPUs and 1Gi more memory, for the
// system. The trace has no NUMA nodes: machines with more than 32 CPUs have two here, with half of everything each.
// Two of the trace's 1523 machines are left out, because each is the only one of its kind.
const alibaba = `
source sizes and durations of cluster-trace-gpu-v2023 (Weng et al., USENIX ATC '23)
machines gpu8-96 550
numa 0 socket 0 cpus 0-49 memory 193Gi
numa 1 socket 1 cpus 50-97 memory 192Gi
distances 10 21
distances 21 10
device nvidia.com/gpu g0,g1,g2,g3 numa 0
device nvidia.com/gpu g4,g5,g6,g7 numa 1
rules topology=restricted cpu=static reserved=0-1 memory=Static reserve=0:memory:1Gi
machines gpu2-104 387
numa 0 socket 0 cpus 0-53 memory 257Gi
numa 1 socket 1 cpus 54-105 memory 256Gi
distances 10 21
distances 21 10
device nvidia.com/gpu g0 numa 0
device nvidia.com/gpu g1 numa 1
rules topology=restricted cpu=static reserved=0-1 memory=Static reserve=0:memory:1Gi
machines cpu-32 162
numa 0 cpus 0-33 memory 257Gi
distances 10
rules topology=restricted cpu=static reserved=0-1 memory=Static reserve=0:memory:1Gi
machines gpu2-16 109
numa 0 cpus 0-17 memory 121Gi
distances 10
device nvidia.com/gpu g0,g1 numa 0
rules topology=restricted cpu=static reserved=0-1 memory=Static reserve=0:memory:1Gi
machines cpu-96 90
numa 0 socket 0 cpus 0-49 memory 257Gi
numa 1 socket 1 cpus 50-97 memory 256Gi
distances 10 21
distances 21 10
rules topology=restricted cpu=static reserved=0-1 memory=Static reserve=0:memory:1Gi
machines gpu8-128 39
numa 0 socket 0 cpus 0-65 memory 385Gi
numa 1 socket 1 cpus 66-129 memory 384Gi
distances 10 21
distances 21 10
device nvidia.com/gpu g0,g1,g2,g3 numa 0
device nvidia.com/gpu g4,g5,g6,g7 numa 1
rules topology=restricted cpu=static reserved=0-1 memory=Static reserve=0:memory:1Gi
machines cpu-64 34
numa 0 socket 0 cpus 0-33 memory 257Gi
numa 1 socket 1 cpus 34-65 memory 256Gi
distances 10 21
distances 21 10
rules topology=restricted cpu=static reserved=0-1 memory=Static reserve=0:memory:1Gi
machines gpu4-32 28
numa 0 cpus 0-33 memory 129Gi
distances 10
device nvidia.com/gpu g0,g1,g2,g3 numa 0
rules topology=restricted cpu=static reserved=0-1 memory=Static reserve=0:memory:1Gi
machines cpu-104 24
numa 0 socket 0 cpus 0-53 memory 257Gi
numa 1 socket 1 cpus 54-105 memory 256Gi
distances 10 21
distances 21 10
rules topology=restricted cpu=static reserved=0-1 memory=Static reserve=0:memory:1Gi
machines gpu2-64 22
numa 0 socket 0 cpus 0-33 memory 129Gi
numa 1 socket 1 cpus 34-65 memory 128Gi
distances 10 21
distances 21 10
device nvidia.com/gpu g0 numa 0
device nvidia.com/gpu g1 numa 1
rules topology=restricted cpu=static reserved=0-1 memory=Static reserve=0:memory:1Gi
machines gpu1-8 22
numa 0 cpus 0-9 memory 33Gi
distances 10
device nvidia.com/gpu g0 numa 0
rules topology=restricted cpu=static reserved=0-1 memory=Static reserve=0:memory:1Gi
machines gpu8-96-768 21
numa 0 socket 0 cpus 0-49 memory 385Gi
numa 1 socket 1 cpus 50-97 memory 384Gi
distances 10 21
distances 21 10
device nvidia.com/gpu g0,g1,g2,g3 numa 0
device nvidia.com/gpu g4,g5,g6,g7 numa 1
rules topology=restricted cpu=static reserved=0-1 memory=Static reserve=0:memory:1Gi
machines gpu4-96 17
numa 0 socket 0 cpus 0-49 memory 193Gi
numa 1 socket 1 cpus 50-97 memory 192Gi
distances 10 21
distances 21 10
device nvidia.com/gpu g0,g1 numa 0
device nvidia.com/gpu g2,g3 numa 1
rules topology=restricted cpu=static reserved=0-1 memory=Static reserve=0:memory:1Gi
machines gpu4-48 9
numa 0 socket 0 cpus 0-25 memory 185Gi
numa 1 socket 1 cpus 26-49 memory 184Gi
distances 10 21
distances 21 10
device nvidia.com/gpu g0,g1 numa 0
device nvidia.com/gpu g2,g3 numa 1
rules topology=restricted cpu=static reserved=0-1 memory=Static reserve=0:memory:1Gi
machines gpu8-64 7
numa 0 socket 0 cpus 0-33 memory 129Gi
numa 1 socket 1 cpus 34-65 memory 128Gi
distances 10 21
distances 21 10
device nvidia.com/gpu g0,g1,g2,g3 numa 0
device nvidia.com/gpu g4,g5,g6,g7 numa 1
rules topology=restricted cpu=static reserved=0-1 memory=Static reserve=0:memory:1Gi
shape g0-c8-m30 : main cpu=8 memory=30Gi
shape g0-c13-m56 : main cpu=13 memory=56Gi
shape g0-c16-m50 : main cpu=16 memory=50Gi
shape g0-c17-m50 : main cpu=17 memory=50Gi
shape g0-c32-m48 : main cpu=32 memory=48Gi
shape g1-c4-m6 : main cpu=4 memory=6Gi nvidia.com/gpu=1
shape g1-c4-m24 : main cpu=4 memory=24Gi nvidia.com/gpu=1
shape g1-c6-m12 : main cpu=6 memory=12Gi nvidia.com/gpu=1
shape g1-c8-m30 : main cpu=8 memory=30Gi nvidia.com/gpu=1
shape g1-c10-m41 : main cpu=10 memory=41Gi nvidia.com/gpu=1
shape g1-c12-m48 : main cpu=12 memory=48Gi nvidia.com/gpu=1
shape g1-c16-m57 : main cpu=16 memory=57Gi nvidia.com/gpu=1
shape g1-c20-m63 : main cpu=20 memory=63Gi nvidia.com/gpu=1
shape g1-c26-m91 : main cpu=26 memory=91Gi nvidia.com/gpu=1
shape g2-c18-m65 : main cpu=18 memory=65Gi nvidia.com/gpu=2
shape g4-c33-m129 : main cpu=33 memory=129Gi nvidia.com/gpu=4
shape g4-c64-m313 : main cpu=64 memory=313Gi nvidia.com/gpu=4
shape g8-c66-m257 : main cpu=66 memory=257Gi nvidia.com/gpu=8
shape g8-c88-m320 : main cpu=88 memory=320Gi nvidia.com/gpu=8
shape g8-c121-m720 : main cpu=121 memory=720Gi nvidia.com/gpu=8
mix g0-c8-m30 185 141,175,496,1449,13219
mix g0-c13-m56 382 141,175,496,1449,13219
mix g0-c16-m50 134 141,175,496,1449,13219
mix g0-c17-m50 95 141,175,496,1449,13219
mix g0-c32-m48 292 141,175,496,1449,13219
mix g1-c4-m6 1593 67,218,655,1687,7240
mix g1-c4-m24 716 67,218,655,1687,7240
mix g1-c6-m12 311 67,218,655,1687,7240
mix g1-c8-m30 663 67,218,655,1687,7240
mix g1-c10-m41 243 67,218,655,1687,7240
mix g1-c12-m48 2639 67,218,655,1687,7240
mix g1-c16-m57 456 67,218,655,1687,7240
mix g1-c20-m63 284 67,218,655,1687,7240
mix g1-c26-m91 84 67,218,655,1687,7240
mix g2-c18-m65 16 62,952,2267,4319,27368
mix g4-c33-m129 12 23,36,542,2361,23925
mix g4-c64-m313 3 23,36,542,2361,23925
mix g8-c66-m257 21 136,417,553,3599,101998
mix g8-c88-m320 18 136,417,553,3599,101998
mix g8-c121-m720 5 136,417,553,3599,101998
`
