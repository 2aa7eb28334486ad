"""Ignite, as MONAI's trainers, with one line changed: `attach_marks`. `--small` is what is to be proven.

speedproof prove 'python train_ignite.py' 'python train_ignite.py --small' --margin 0.02
"""

import sys

import torch
from ignite.engine import Events, create_supervised_evaluator, create_supervised_trainer
from ignite.metrics import Accuracy

from speedproof.callbacks.for_ignite import attach_marks

torch.manual_seed(0)
inputs = torch.randn(1024, 16)
labels = (inputs[:, :4].sum(dim=1) > 0).long()
training = list(zip(inputs[:768].split(64), labels[:768].split(64), strict=True))
width = 16 if "--small" in sys.argv else 256
network = torch.nn.Sequential(torch.nn.Linear(16, width), torch.nn.ReLU(), torch.nn.Linear(width, 2))
optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
trainer = create_supervised_trainer(network, optimizer, torch.nn.functional.cross_entropy)
evaluator = create_supervised_evaluator(network, metrics={"accuracy": Accuracy()})
trainer.add_event_handler(Events.EPOCH_COMPLETED, lambda: evaluator.run([(inputs[768:], labels[768:])]))
attach_marks(trainer, evaluator, quality="accuracy")
trainer.run(training, max_epochs=3)
