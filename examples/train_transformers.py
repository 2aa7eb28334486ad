"""Hugging Face's Trainer with one line changed: the callback. `--small` is what is to be proven.

speedproof prove 'python train_transformers.py' 'python train_transformers.py --small' --margin 0.02
"""

import sys
import tempfile

import torch
from transformers import PretrainedConfig, PreTrainedModel, Trainer, TrainingArguments

from speedproof.callbacks.for_transformers import marking_callback

inputs = torch.randn(1024, 16, generator=torch.Generator().manual_seed(0))
rows = [{"x": x, "labels": (x[:4].sum() > 0).long()} for x in inputs]


class Classifier(PreTrainedModel):
    config_class = PretrainedConfig

    def __init__(self, config):
        super().__init__(config)
        width = 16 if "--small" in sys.argv else 256
        self.network = torch.nn.Sequential(torch.nn.Linear(16, width), torch.nn.ReLU(), torch.nn.Linear(width, 2))
        self.post_init()

    def forward(self, x, labels):
        logits = self.network(x)
        return {"loss": torch.nn.functional.cross_entropy(logits, labels), "logits": logits}


with tempfile.TemporaryDirectory() as folder:
    times = {"num_train_epochs": 3, "eval_strategy": "epoch", "save_strategy": "no", "report_to": "none", "use_cpu": True}
    arguments = TrainingArguments(folder, per_device_train_batch_size=64, learning_rate=1e-2, disable_tqdm=True, **times)
    right = {"compute_metrics": lambda found: {"accuracy": (found.predictions.argmax(1) == found.label_ids).mean()}}
    callbacks = [marking_callback(quality="eval_accuracy")]
    Trainer(Classifier(PretrainedConfig()), arguments, None, rows[:768], rows[768:], callbacks=callbacks, **right).train()
