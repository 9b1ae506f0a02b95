package sim

// demo has one machine of each kind of the lab's catalogue, and pods that arrive at once. They fit only if every pod
// goes to the right place.
const demo = `
source one machine of each kind of the lab, and pods that fit if each goes to the right place, all at once
machines epyc-nps4 1
numa 0 socket 0 cpus 0-15/128-143 l3 2 memory 64Gi
numa 1 socket 0 cpus 16-31/144-159 l3 2 memory 64Gi
numa 2 socket 0 cpus 32-47/160-175 l3 2 memory 64Gi
numa 3 socket 0 cpus 48-63/176-191 l3 2 memory 64Gi
numa 4 socket 1 cpus 64-79/192-207 l3 2 memory 64Gi
numa 5 socket 1 cpus 80-95/208-223 l3 2 memory 64Gi
numa 6 socket 1 cpus 96-111/224-239 l3 2 memory 64Gi
numa 7 socket 1 cpus 112-127/240-255 l3 2 memory 64Gi
distances 10 12 12 12 32 32 32 32
distances 12 10 12 12 32 32 32 32
distances 12 12 10 12 32 32 32 32
distances 12 12 12 10 32 32 32 32
distances 32 32 32 32 10 12 12 12
distances 32 32 32 32 12 10 12 12
distances 32 32 32 32 12 12 10 12
distances 32 32 32 32 12 12 12 10
rules topology=restricted scope=container prefer-closest cpu=static reserved=0-1,128-129 options=full-pcpus-only,prefer-align-cpus-by-uncorecache memory=Static reserve=0:memory:4Gi
machines gpu-8 1
numa 0 socket 0 cpus 0-55/112-167 memory 1Ti
numa 1 socket 1 cpus 56-111/168-223 memory 1Ti
distances 10 21
distances 21 10
device nvidia.com/gpu GPU-0,GPU-1,GPU-2,GPU-3 numa 0
device nvidia.com/gpu GPU-4,GPU-5,GPU-6,GPU-7 numa 1
device rdma/hca mlx5_0,mlx5_1,mlx5_2,mlx5_3 numa 0
device rdma/hca mlx5_4,mlx5_5,mlx5_6,mlx5_7 numa 1
rules topology=single-numa-node scope=pod cpu=static reserve-cpus=4 memory=Static reserve=0:memory:4Gi,1:memory:4Gi
machines laptop 1
numa 0 socket 0 cpus 0,2,4,6,8,10/1,3,5,7,9,11 l3 2 memory 16Gi
rules topology=none cpu=none memory=None
machines sparse 1
numa 0 socket 0 cpus 0,4,8,12,16,20,24,28,32,36,40,44,48,52,56,60/1,5,9,13,17,21,25,29,33,37,41,45,49,53,57,61/2,6,10,14,18,22,26,30,34,38,42,46,50,54,58,62/3,7,11,15,19,23,27,31,35,39,43,47,51,55,59,63 l3 8 memory 256Gi
numa 8 socket 1 cpus 64,68,72,76,80,84,88,92,96,100,104,108,112,116,120,124/65,69,73,77,81,85,89,93,97,101,105,109,113,117,121,125/66,70,74,78,82,86,90,94,98,102,106,110,114,118,122,126/67,71,75,79,83,87,91,95,99,103,107,111,115,119,123,127 l3 8 memory 256Gi
numa 16 memory 128Gi
distances 10 40 80
distances 40 10 80
distances 80 80 10
device nvidia.com/gpu GPU-0,GPU-1 numa 0
device nvidia.com/gpu GPU-2,GPU-3 numa 8
rules topology=best-effort scope=container cpu=static reserved=0-3,64-67 memory=Static reserve=0:memory:2Gi,8:memory:2Gi
machines xeon-2s 1
numa 0 socket 0 cpus 0-27/56-83 memory 128Gi hugepages-2Mi 0 hugepages-1Gi 32
numa 1 socket 1 cpus 28-55/84-111 memory 128Gi hugepages-2Mi 0 hugepages-1Gi 32
distances 10 20
distances 20 10
device intel.com/sriov_vf 0000:17:01.0,0000:17:01.1,0000:17:01.2,0000:17:01.3 numa 0
device intel.com/sriov_vf 0000:98:01.0,0000:98:01.1,0000:98:01.2,0000:98:01.3 numa 1
rules topology=single-numa-node scope=container cpu=static reserved=0,28,56,84 options=full-pcpus-only memory=Static reserve=0:memory:2Gi,1:memory:2Gi
machines xeon-snc2 1
numa 0 socket 0 cpus 0,4,8,12,16,20,24,28,32,36/40,44,48,52,56,60,64,68,72,76 memory 96Gi hugepages-2Mi 4096
numa 1 socket 1 cpus 1,5,9,13,17,21,25,29,33,37/41,45,49,53,57,61,65,69,73,77 memory 96Gi hugepages-2Mi 4096
numa 2 socket 0 cpus 2,6,10,14,18,22,26,30,34,38/42,46,50,54,58,62,66,70,74,78 memory 96Gi hugepages-2Mi 4096
numa 3 socket 1 cpus 3,7,11,15,19,23,27,31,35,39/43,47,51,55,59,63,67,71,75,79 memory 96Gi hugepages-2Mi 4096
distances 10 21 11 21
distances 21 10 21 11
distances 11 21 10 21
distances 21 11 21 10
device intel.com/qat 0000:3d:01.0,0000:3d:01.1,0000:3d:01.2,0000:3d:01.3 numa 0
device intel.com/qat 0000:da:01.0,0000:da:01.1,0000:da:01.2,0000:da:01.3 numa 3
device example.com/license seat-0,seat-1 numa none
rules topology=restricted scope=container cpu=static reserved=0-3,40-43 options=full-pcpus-only,distribute-cpus-across-numa memory=Static reserve=0:memory:1Gi,1:memory:1Gi,2:memory:1Gi,3:memory:1Gi
shape train-3gpu : trainer cpu=24 memory=96Gi nvidia.com/gpu=3 rdma/hca=3
shape train-2gpu : trainer cpu=16 memory=64Gi nvidia.com/gpu=2
shape infer burstable : model cpu=2 memory=8Gi nvidia.com/gpu=1
shape upf : upf cpu=12 memory=4Gi hugepages-1Gi=8Gi intel.com/sriov_vf=3
shape dns : dns cpu=4 memory=2Gi hugepages-1Gi=2Gi intel.com/sriov_vf=1
shape solver : solver cpu=20 memory=20Gi
shape render : render cpu=16 memory=24Gi
shape build : build cpu=12 memory=12Gi
shape app : app cpu=4 memory=8Gi
shape web burstable : web cpu=500m memory=512Mi
pod 0 86400 train-3gpu 2
pod 0 86400 train-2gpu 2
pod 0 86400 infer 2
pod 0 86400 upf 2
pod 0 86400 dns 2
pod 0 86400 solver 14
pod 0 86400 render 6
pod 0 86400 build 8
pod 0 86400 app 14
pod 0 86400 web 20
`
