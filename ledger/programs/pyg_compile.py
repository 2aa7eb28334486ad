"""Forward and backward passes of a graph network on random graphs: `python pyg_compile.py gcn|sage|gin eager|compiled`."""

import sys

import torch
from timing import print_times
from torch_geometric.nn import GCN, GIN, GraphSAGE

torch.manual_seed(0)
model = {"gcn": GCN, "sage": GraphSAGE, "gin": GIN}[sys.argv[1]](64, 64, num_layers=3).cuda()
compute = torch.compile(model) if sys.argv[2] == "compiled" else model
nodes, edges = 10_000, 200_000
graphs = [(torch.randn(nodes, 64, device="cuda"), torch.randint(nodes, (2, edges), device="cuda")) for _ in range(20)]
gradient = torch.randn(nodes, 64, device="cuda")


def work(passes=5):
    for _ in range(passes):
        for features, edge_index in graphs:
            out = compute(features.detach().requires_grad_(), edge_index)
            torch.cuda.synchronize()
            out.backward(gradient)
            torch.cuda.synchronize()


work(passes=3)  # compiles, for dynamic shapes too
print_times(work)
