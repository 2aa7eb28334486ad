"""Epochs of a small classifier of 60,000 digits, on a GPU: `python lightning_overhead.py lightning` or `pytorch`."""

import sys
import time

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, Dataset

EPOCHS = 6  # the first one starts everything, and prints nothing


class Digits(Dataset):
    def __init__(self):
        self.images = torch.randint(256, (60_000, 28, 28), dtype=torch.uint8)
        self.targets = torch.randint(10, (60_000,))

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        image = self.images[i].float().unsqueeze(0)
        return image.sub(torch.as_tensor(0.1307)).div(torch.as_tensor(0.3081)), int(self.targets[i])


class Classifier(LightningModule):
    def __init__(self):
        super().__init__()
        layers = [nn.Flatten(), nn.Linear(784, 128), nn.Tanh(), nn.BatchNorm1d(128), nn.Dropout(0.3), nn.Linear(128, 10)]
        self.layers = nn.Sequential(*layers)
        self.losses = []

    def training_step(self, batch, _):
        images, targets = batch
        loss = cross_entropy(self.layers(images), targets)
        self.losses.append(loss.item())
        return {"loss": loss}

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.02)


class Clock(Callback):
    """Prints how long it is since the last epoch ended; so it counts what happens between two epochs."""

    last = None

    def on_train_epoch_end(self, *_):
        torch.cuda.synchronize()
        now = time.perf_counter()
        if self.last is not None:
            print(f"took {now - self.last:.6f} s", flush=True)
        self.last = now


def train_plainly(model, loader, clock):
    optimizer = model.configure_optimizers()
    model.cuda().train()
    for _ in range(EPOCHS):
        for i, batch in enumerate(loader):
            loss = model.training_step([part.cuda() for part in batch], i)["loss"]
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        clock.on_train_epoch_end()


if __name__ == "__main__":
    torch.manual_seed(0)
    model, loader, clock = Classifier(), DataLoader(Digits(), batch_size=128, num_workers=1), Clock()
    if sys.argv[1] == "pytorch":
        train_plainly(model, loader, clock)
    else:
        quiet = dict.fromkeys(["enable_progress_bar", "enable_model_summary", "enable_checkpointing", "logger"], False)
        Trainer(max_epochs=EPOCHS, accelerator="gpu", devices=1, callbacks=[clock], **quiet).fit(model, loader)
