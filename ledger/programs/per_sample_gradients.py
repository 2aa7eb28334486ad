"""A gradient for each of 64 samples of a small CNN, on a GPU: `python per_sample_gradients.py loop` or `vmap`."""

import sys

import torch
from timing import print_times
from torch.func import functional_call, grad, vmap
from torch.nn.functional import nll_loss

torch.manual_seed(0)
layers = [torch.nn.Conv2d(1, 32, 3), torch.nn.ReLU(), torch.nn.Conv2d(32, 64, 3), torch.nn.ReLU(), torch.nn.MaxPool2d(2)]
layers += [torch.nn.Flatten(), torch.nn.Linear(9216, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10), torch.nn.LogSoftmax(1)]
model = torch.nn.Sequential(*layers).cuda()
images, labels = torch.randn(64, 1, 28, 28, device="cuda"), torch.randint(10, (64,), device="cuda")
weights = {name: value.detach() for name, value in model.named_parameters()}


def loop():
    losses = (nll_loss(model(image[None]), label[None]) for image, label in zip(images, labels, strict=True))
    gradients = [torch.autograd.grad(loss, list(model.parameters())) for loss in losses]
    return [torch.stack(parts) for parts in zip(*gradients, strict=True)]


def find_loss(weights, image, label):
    return nll_loss(functional_call(model, weights, (image[None],)), label[None])


transformed = vmap(grad(find_loss), in_dims=(None, 0, 0))
compute = loop if sys.argv[1] == "loop" else lambda: transformed(weights, images, labels)


def work():
    for _ in range(100):
        compute()
    torch.cuda.synchronize()


print_times(work)
