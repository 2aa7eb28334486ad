"""The network of PyTorch's recipe for AMP, trained on a GPU: `python mixed_precision.py`, with or without `--amp`."""

import sys

import torch
from timing import print_times

torch.manual_seed(0)
amp = "--amp" in sys.argv
layers = [
    torch.nn.Linear(4096, 4096),
    torch.nn.ReLU(),
    torch.nn.Linear(4096, 4096),
    torch.nn.ReLU(),
    torch.nn.Linear(4096, 4096),
]
model = torch.nn.Sequential(*layers).cuda()
find_loss = torch.nn.MSELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
scaler = torch.amp.GradScaler("cuda", enabled=amp)
batches = [(torch.randn(512, 4096, device="cuda"), torch.randn(512, 4096, device="cuda")) for _ in range(50)]


def work(epochs=3):
    for _ in range(epochs):
        for inputs, targets in batches:
            with torch.autocast("cuda", dtype=torch.float16, enabled=amp):
                loss = find_loss(model(inputs), targets)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    torch.cuda.synchronize()


work(1)
print_times(work)
