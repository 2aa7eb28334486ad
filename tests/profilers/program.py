"""A small training program for the profilers' tests: `program.py STYLE WORKERS [TRACE]`, under kineto where TRACE is given."""

import sys
from contextlib import nullcontext
from pathlib import Path

import torch
from monai.data import CacheDataset, DataLoader, ThreadDataLoader
from monai.transforms import Compose, RandFlipd, ScaleIntensityd

from speedproof.profilers.ranges import Ranges, Recorder, mark_transform
from speedproof_spleen.training.kineto import kineto_recording

EPOCHS, STEPS = 2, 3


def train(ranges: Ranges, workers: int) -> None:
    chain = Compose([mark_transform(ScaleIntensityd("image")), mark_transform(RandFlipd("image", prob=0.5))])
    volumes = [{"image": torch.arange(16.0).reshape(1, 4, 4)} for _ in range(2 * STEPS)]
    dataset = CacheDataset(volumes, chain, num_workers=2, progress=False)
    if workers:
        loader = DataLoader(dataset, batch_size=2, num_workers=workers)
    else:
        loader = ThreadDataLoader(dataset, batch_size=2, num_workers=0)
    network = torch.nn.Conv2d(1, 1, 3)
    for _ in range(EPOCHS):
        with ranges.phase("epoch"):
            batches = iter(loader)
            for _ in range(STEPS):
                with ranges.phase("dataload"):
                    batch = next(batches)
                with ranges.phase("forward"):
                    loss = network(torch.as_tensor(batch["image"])).sum()
                with ranges.phase("backward"):
                    loss.backward()


if __name__ == "__main__":
    style, workers, *trace = sys.argv[1:]
    recorder = Recorder()
    with kineto_recording(recorder, Path(trace[0])) if trace else nullcontext():
        train(Ranges(style, recorder), int(workers))
