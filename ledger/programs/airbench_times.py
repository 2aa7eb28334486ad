"""Published trainings on images of CIFAR-10's size: `python airbench_times.py airbench94` or `airbench94_compiled`."""

import importlib
import pathlib
import shutil
import sys

import torch

torch.manual_seed(0)
sys.path.insert(0, "legacy")
program = importlib.import_module(sys.argv[1])

folder = pathlib.Path("cifar10")
folder.mkdir(exist_ok=True)
classes = torch.randint(0, 128, (10, 32, 32, 3), dtype=torch.uint8)
for name, count in (("train", 50_000), ("test", 10_000)):
    labels = torch.randint(10, (count,))
    images = classes[labels] + torch.randint(0, 128, (count, 32, 32, 3), dtype=torch.uint8)
    torch.save({"images": images, "labels": labels, "classes": [str(label) for label in range(10)]}, folder / f"{name}.pt")

models = []
if sys.argv[1] == "airbench94_compiled":
    models = [program.make_net(), program.make_net()]
    models[1][0].bias.requires_grad = False
    models = [torch.compile(model, mode="max-autotune") for model in models]

program.main("warmup", *models)
for run in range(4):
    program.main(run, *models)
shutil.rmtree(folder)
