"""ResNet-50 on Tiny ImageNet as KAUST documents its profiling, and variants of ours: what `workload.yaml` names."""
