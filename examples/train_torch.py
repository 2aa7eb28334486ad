"""Plain PyTorch with two lines changed: the import, and the loop over `marks.epochs`. `--fused` is what is to be proven.
Quality is judged over seeds, so it takes its own from SPEEDPROOF_SEED.

speedproof prove 'python train_torch.py' 'python train_torch.py --fused' --margin 0.02
"""

import os
import sys

import torch

from speedproof import marks  # the first line that is new: one file of the standard library, which may also be copied

torch.manual_seed(int(os.environ.get("SPEEDPROOF_SEED", "0")))
inputs = torch.randn(4096, 64)
labels = (inputs[:, :8].sum(dim=1) > 0).long()
network = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 2))
optimizer = torch.optim.Adam(network.parameters(), lr=1e-3, fused="--fused" in sys.argv)

for epoch in marks.epochs(5):  # the second one, which was `for epoch in range(5):`
    for batch in torch.randperm(3072).split(64):
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(network(inputs[batch]), labels[batch]).backward()
        optimizer.step()
    with torch.no_grad():
        accuracy = (network(inputs[3072:]).argmax(dim=1) == labels[3072:]).float().mean().item()
    marks.quality(accuracy)  # and a third, where quality shall be judged
    print(f"epoch {epoch + 1}: accuracy {accuracy:.4f}")
