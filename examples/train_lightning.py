"""Lightning with one line changed: the callback. `--small` is what is to be proven.

speedproof prove 'python train_lightning.py' 'python train_lightning.py --small' --margin 0.02
"""

import sys

import lightning
import torch

from speedproof.callbacks.for_lightning import marking_callback

inputs = torch.randn(1024, 16, generator=torch.Generator().manual_seed(0))
labels = (inputs[:, :4].sum(dim=1) > 0).long()
training, validation = (torch.utils.data.TensorDataset(inputs[part], labels[part]) for part in (slice(768), slice(768, None)))


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        width = 16 if "--small" in sys.argv else 256
        self.network = torch.nn.Sequential(torch.nn.Linear(16, width), torch.nn.ReLU(), torch.nn.Linear(width, 2))

    def training_step(self, batch, number):
        return torch.nn.functional.cross_entropy(self.network(batch[0]), batch[1])

    def validation_step(self, batch, number):
        self.log("val_acc", (self.network(batch[0]).argmax(dim=1) == batch[1]).float().mean())

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-2)


callbacks = [marking_callback(quality="val_acc")]
quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
trainer = lightning.Trainer(max_epochs=3, accelerator="cpu", callbacks=callbacks, **quiet)
trainer.fit(Classifier(), *(torch.utils.data.DataLoader(data, batch_size=64) for data in (training, validation)))
