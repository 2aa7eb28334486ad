"""ResNet-50 on Tiny ImageNet as KAUST documents its profiling, and sides of ours: what `workload.yaml` names."""
