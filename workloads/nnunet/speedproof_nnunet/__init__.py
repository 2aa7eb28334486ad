"""nnU-Net v2 as published, beside a trainer that augments on the GPU: what `workload.yaml` names."""
