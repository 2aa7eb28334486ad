"""`run_ours.py VARIANT DATA [documented]`: runs a variant of /config.yaml as a program, which marks its epochs.

`documented` puts autograd's own NVTX ranges around all of them, as in the published scripts.
"""

import os
import sys
from contextlib import redirect_stderr
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def main(variant: str, data: str, mode: str = "profiled") -> None:
    """Train in this process, below the working folder."""
    sys.path.insert(0, str(ROOT / "src"))  # the whole instrument, of which a variant's program finds the marks alone
    from speedproof.api import Dataset, read_record
    from speedproof_spleen.config import load_config
    from speedproof_spleen.training.compiling import begin_compiling, spare_threads

    config, described, out = load_config(ROOT / "config.yaml"), Path(data, "dataset.json"), Path("run")
    told = {"epochs": "SPEEDPROOF_EPOCHS", "validate_every": "SPEEDPROOF_VALIDATE_EVERY"}
    lengths = {key: int(os.environ[name]) for key, name in told.items() if os.environ.get(name)}
    config = config.model_copy(update={"measurement": config.measurement.model_copy(update=lengths)})
    dataset = read_record(described, Dataset)
    files, seed = dataset.files(described), int(os.environ.get("SPEEDPROOF_SEED") or 0)
    chosen, device = config.variants[variant], config.measurement.device
    ahead = begin_compiling(config.case, config.workload, chosen, device)
    spare_threads(chosen)
    from speedproof_spleen.training.reading import begin_early  # imports take 0.1 s

    with ahead, begin_early(chosen, files, dataset.checksums(files)) as readings:
        import torch
        from kept_weights import keep_weights

        from speedproof import marks
        from speedproof_spleen.segmentation import build_case
        from speedproof_spleen.training.run import Request, run_training
        from speedproof_spleen.training.work import count_work

        request = Request(variant, mode=mode, round=0, seed=seed, profiler="none")
        # To no terminal, where a progress bar would be drawn while epochs are timed: the published programs draw none.
        with Path("messages.txt").open("w", encoding="utf-8") as messages, redirect_stderr(messages):
            run = run_training(config, dataset, files, request, out, readings, ahead)
    case = build_case(config.case, config.workload, chosen, torch.device("cpu"))
    patches = case.patches_per_volume() * len(case.split_files(files)[0])
    marks.flop(count_work(case.network(), case.patch_size(), patches).flop_per_epoch)
    keep_weights(out / "best.pt", variant, run.best_quality)


if __name__ == "__main__":
    main(*sys.argv[1:])
