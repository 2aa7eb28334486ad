"""A program of several processes: each adds its rank to all others', inside an NVTX range."""

import nvtx
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
with nvtx.annotate("all reduce"):
    total = torch.tensor([dist.get_rank() + 1])
    dist.all_reduce(total)
print(f"rank {dist.get_rank()} of {dist.get_world_size()}: {int(total)}", flush=True)
dist.destroy_process_group()
