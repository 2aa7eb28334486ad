"""Steps of Adam for ten linear layers on a GPU: `python compiled_adam.py`, with or without `--compile`."""

import sys

import torch
from timing import print_times

torch.manual_seed(0)
model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024, False, device="cuda") for _ in range(10)])
model(torch.rand(1024, device="cuda")).sum().backward()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)


def take_step():
    optimizer.step()


step = torch.compile(take_step, fullgraph=False) if "--compile" in sys.argv else take_step


def work(steps=1500):
    for _ in range(steps):
        step()
    torch.cuda.synchronize()


work(10)
print_times(work)
