"""What `accelerate` gives ten common networks: a training step against AMP with channels last and torch.compile.

`python networks.py --out FOLDER [--seconds 220] [--profile] [NAME …]` runs each network in a process of its own. All processes
prepare at the same time (imports, compilers, a check of results and gradients). Then each in turn has the GPU to itself and is
timed. The results are in FOLDER/networks.json and networks.txt, which are rewritten after each network.
"""

import argparse
import copy
import json
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

HALF = torch.float16
_WARM_UPS, _STEPS, _ROUNDS = 3, 5, 4


@dataclass(frozen=True)
class Setting:
    """A network, and a batch as its documents train it on."""

    title: str
    make: Callable[[], nn.Module]
    shape: tuple[int, ...]  # items, channels, sizes
    small: tuple[int, ...]  # of the check against fp32
    classes: int
    source: str


def _unet(dimensions: int, channels: tuple[int, ...], **settings: Any) -> nn.Module:
    from monai.networks.nets import UNet

    given = {"in_channels": 1, "out_channels": 2, "num_res_units": 2, **settings}
    return UNet(dimensions, channels=channels, strides=[2] * (len(channels) - 1), **given)


def _dynunet(inputs: int, outputs: int, filters: tuple[int, ...], **settings: Any) -> nn.Module:
    from monai.networks.nets import DynUNet

    levels = len(filters)
    strides: list[int] = [1, *[2] * (levels - 1)]
    return DynUNet(3, inputs, outputs, [3] * levels, strides, strides[1:], filters=filters, norm_name="instance", **settings)


def _segresnet(filters: int, **settings: Any) -> nn.Module:
    from monai.networks.nets import SegResNet

    given = {"in_channels": 4, "out_channels": 3, "blocks_down": (1, 2, 2, 4), "blocks_up": (1, 1, 1), **settings}
    return SegResNet(3, filters, **given)


def _basic_unet() -> nn.Module:
    from monai.networks.nets import BasicUNet

    return BasicUNet(3, 1, 2, features=(32, 32, 64, 128, 256, 32))


SPLEEN, CUBE = (16, 32, 64, 128, 256), (96, 96, 96)
SETTINGS = {
    "unet_spleen": Setting(
        "UNet 16…256, batch norm", lambda: _unet(3, SPLEEN, norm="batch"), (8, 1, *CUBE), (2, 1, 32, 32, 32), 2,
        "spleen_segmentation_3d: 2 volumes, 4 patches of each",
    ),
    "unet_spleen_fast": Setting(
        "UNet 32…512, batch norm, dropout 0.2", lambda: _unet(3, (32, 64, 128, 256, 512), norm="batch", dropout=0.2),
        (16, 1, *CUBE), (2, 1, 32, 32, 32), 2, "fast_training_tutorial: 4 volumes, 4 patches of each",
    ),
    "unet_instance": Setting(
        "UNet 16…256, instance norm", lambda: _unet(3, SPLEEN), (4, 1, *CUBE), (2, 1, 32, 32, 32), 2,
        "unet_training_array: UNet's own norm",
    ),
    "unet_2d": Setting(
        "UNet 16…256, images", lambda: _unet(2, SPLEEN, out_channels=2), (32, 1, 256, 256), (4, 1, 64, 64), 2,
        "2d_segmentation: UNet's own norm",
    ),
    "basic_unet": Setting(
        "BasicUNet 32…256", _basic_unet, (4, 1, *CUBE), (1, 1, 48, 48, 48), 2, "BasicUNet's own settings",
    ),
    "dynunet_spleen": Setting(
        "DynUNet 32…320, deep supervision", lambda: _dynunet(1, 2, (32, 64, 128, 256, 320, 320), deep_supervision=True,
        deep_supr_num=2), (2, 1, 64, 160, 160), (1, 1, 32, 64, 64), 2, "dynunet_pipeline, as nnU-Net plans it",
    ),
    "dynunet_brats": Setting(
        "DynUNet 32…512", lambda: _dynunet(4, 3, (32, 64, 128, 256, 512)), (1, 4, 128, 128, 128), (1, 4, 32, 32, 32), 3,
        "BraTS patches of 128³",
    ),
    "segresnet_small": Setting(
        "SegResNet 8", lambda: _segresnet(8), (1, 4, 128, 128, 128), (1, 4, 32, 32, 32), 3, "SegResNet's own filters",
    ),
    "segresnet_brats": Setting(
        "SegResNet 16", lambda: _segresnet(16), (1, 4, 224, 224, 144), (1, 4, 32, 32, 48), 3, "brats_training_ddp",
    ),
    "segresnet_large": Setting(
        "SegResNet 32", lambda: _segresnet(32), (1, 4, 192, 192, 128), (1, 4, 32, 32, 32), 3, "twice the documented filters",
    ),
}  # fmt: skip


def _loss(out: Tensor, labels: Tensor) -> Tensor:
    """Return the cross entropy, or that of regions that overlap; with deep supervision, of the mean of all outputs."""
    if out.dim() == labels.dim() + 2:
        return torch.stack([_loss(one, labels) for one in out.unbind(1)]).mean()
    if out.shape[1] == 2:
        return nn.functional.cross_entropy(out.float(), labels)
    hot = torch.stack([labels == number for number in range(out.shape[1])], 1).float()
    return nn.functional.binary_cross_entropy_with_logits(out.float(), hot)


class Trainer:
    """A training step of a network: forward and loss in autocast, backward, the optimizer's step, with a gradient scaler."""

    def __init__(self, network: Callable[[Tensor], Tensor], parameters: Any) -> None:
        self._network = network
        self._optimizer = torch.optim.Adam(parameters, 1e-4, fused=True)
        self._scaler = torch.amp.GradScaler("cuda")

    def step(self, images: Tensor, labels: Tensor) -> None:
        """Take one step."""
        torch.compiler.cudagraph_mark_step_begin()  # what the last step left may be written over
        self._optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=HALF):
            loss = _loss(self._network(images), labels)
        self._scaler.scale(loss).backward()
        self._scaler.step(self._optimizer)
        self._scaler.update()


def _time_ms(step: Callable[[], object]) -> list[float]:
    for _ in range(_WARM_UPS):
        step()
    rounds = []
    for _ in range(_ROUNDS):
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(_STEPS):
            step()
        torch.cuda.synchronize()
        rounds.append((time.perf_counter() - start) / _STEPS * 1e3)
    return rounds


def _draw(shape: tuple[int, ...], classes: int) -> tuple[Tensor, Tensor]:
    torch.manual_seed(0)
    images = torch.randn(shape, device="cuda")
    labels = torch.randint(0, classes, (shape[0], *shape[2:]), device="cuda")
    return images.to(memory_format=torch.channels_last_3d if len(shape) == 5 else torch.channels_last), labels


def _differentiate(network: nn.Module, images: Tensor, labels: Tensor, half: bool) -> tuple[Tensor, Tensor]:
    with torch.autocast("cuda", dtype=HALF, enabled=half):
        out = network(images)
        loss = _loss(out, labels)
    parameters = list(network.parameters())
    found = torch.autograd.grad(1024.0 * loss, parameters, allow_unused=True)
    gradients = [torch.zeros_like(p) if g is None else g for p, g in zip(parameters, found, strict=True)]
    return out.detach().double().flatten(), torch.cat([one.double().flatten() / 1024 for one in gradients])


def _apart(found: Tensor, expected: Tensor) -> float:
    return float((found - expected).norm() / expected.norm())


def check(plain: nn.Module, fast: nn.Module, setting: Setting) -> dict[str, float]:
    """Return how far outputs and gradients under AMP are from torch's in fp32: torch's own, and the accelerated network's."""
    images, labels = _draw(setting.small, setting.classes)
    allowed = torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = False
    modules = [one for network in (plain, fast) for one in network.modules()]
    dropouts = [one for one in modules if isinstance(getattr(one, "replaced", one), nn.Dropout | nn.Dropout3d)]
    for one in dropouts:
        one.eval()
    exact = _differentiate(plain, images, labels, half=False)
    results = {"amp": _differentiate(plain, images, labels, half=True), "fast": _differentiate(fast, images, labels, half=True)}
    results["fast_fp32"] = _differentiate(fast, images, labels, half=False)
    for one in dropouts:
        one.train()
    torch.backends.cudnn.allow_tf32 = allowed
    kinds = ("out", "gradient")
    return {f"{name}_{kind}": _apart(got[i], exact[i]) for name, got in results.items() for i, kind in enumerate(kinds)}


def _profile(step: Callable[[], object]) -> dict[str, Any]:
    """Return what the GPU does in a step: how long it runs kernels and how many, and each kernel's time in ms and calls."""
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile

    for _ in range(_WARM_UPS):
        step()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        for _ in range(_STEPS):
            step()
        torch.cuda.synchronize()
    events = sorted((one for one in seen.events() if one.device_type == DeviceType.CUDA), key=lambda one: one.time_range.start)
    kernels: dict[str, list[float]] = {}
    busy, end = 0.0, 0.0
    for one in events:
        begin, until = one.time_range.start, one.time_range.end
        busy += max(until - max(begin, end), 0.0)
        end = max(end, until)
        sums = kernels.setdefault(one.name, [0.0, 0.0])
        sums[0] += (until - begin) / 1e3 / _STEPS
        sums[1] += 1 / _STEPS
    return {
        "span_ms": (end - events[0].time_range.start) / 1e3 / _STEPS,
        "busy_ms": busy / 1e3 / _STEPS,
        "calls": len(events) / _STEPS,
        "kernels": dict(sorted(kernels.items(), key=lambda one: -one[1][0])),
    }


def measure(name: str, folder: Path, compiles: set[str], profiles: bool) -> None:
    """Prepare one network, wait for the GPU, time it; what is found goes to FOLDER/NAME.json as it comes."""
    from speedproof_accelerate import accelerate

    setting, started = SETTINGS[name], time.perf_counter()
    found: dict[str, Any] = {"name": name, "title": setting.title, "shape": setting.shape, "source": setting.source}

    def keep(**values: Any) -> None:
        found.update(values)
        (folder / f"{name}.json").write_text(json.dumps(found, indent=1, default=str))

    def attempt(what: str, call: Callable[[], object]) -> None:
        begin = time.perf_counter()
        for turn in range(4):
            try:
                call()
                break
            except torch.OutOfMemoryError as error:  # others prepare, too
                keep(**({f"{what}_error": str(error)} if turn == 3 else {}))
                torch.cuda.empty_cache()
                time.sleep(6)
            except Exception as error:  # one way that fails leaves the others
                said = f"{type(error).__name__}: {error}"[:1500]
                keep(**{f"{what}_error": said, f"{what}_trace": traceback.format_exc()[:5000]})
                break
        keep(**{f"{what}_took_s": round(time.perf_counter() - begin, 1)})
        torch.cuda.empty_cache()

    torch.manual_seed(0)
    plain = setting.make().cuda()
    order: Any = torch.channels_last_3d if len(setting.shape) == 5 else torch.channels_last
    # All copies first: some networks keep what they have computed, which cannot be copied.
    graphed, fast, first, *others = (copy.deepcopy(plain) for _ in range(5))
    accelerated = [first]
    plain, *others = (one.to(memory_format=order) for one in (plain, *others))
    compiled: dict[str, Any] = {}
    # What the library chooses while others use the GPU must not be chosen for good: it keeps apart what is deterministic.
    torch.backends.cudnn.deterministic = True
    accelerate(accelerated[0], precision=HALF)
    attempt("check", lambda: keep(checked=check(plain, accelerated[0], setting)))
    images, labels = _draw(setting.shape, setting.classes)

    def warm_up(network: Callable[[Tensor], Tensor]) -> None:
        with torch.autocast("cuda", dtype=HALF):
            loss = _loss(network(images), labels)
        loss.backward()

    attempt("warm_up", lambda: warm_up(accelerated[0]))
    accelerated.clear()
    for what, other in zip(("compiled_graphs", "compiled"), others, strict=True):
        if what in compiles:
            mode = "reduce-overhead" if what == "compiled_graphs" else "default"
            compiled[what] = torch.compile(other, dynamic=False, mode=mode)
            attempt(f"{what}_preparation", lambda what=what: warm_up(compiled[what]))  # graphs are recorded by later calls
    torch.cuda.synchronize()
    keep(prepared_s=time.perf_counter() - started)
    (folder / f"{name}.ready").touch()
    while not (folder / f"{name}.go").exists():
        time.sleep(0.05)
    torch.backends.cudnn.deterministic = False
    torch.backends.cudnn.benchmark = True

    def time_steps(what: str, network: Any) -> None:
        trainer = Trainer(network, network.parameters())
        attempt(what, lambda: keep(**{f"{what}_ms": _time_ms(lambda: trainer.step(images, labels))}))

    def profile_steps(what: str, network: Any) -> None:
        if profiles:
            step = partial(Trainer(network, network.parameters()).step, images, labels)
            attempt(f"{what}_profile", lambda: keep(**{f"{what}_profile": _profile(step)}))

    time_steps("amp", plain)

    def replace_and_record() -> None:
        report = accelerate(graphed, images, HALF, graphs=True)
        keep(graphs_report=str(report), graphs_times={part: asdict(times) for part, times in report.times.items()})

    def compare() -> None:
        plain.load_state_dict(graphed.state_dict())
        expected = _differentiate(plain, images, labels, half=True)
        found_here = _differentiate(graphed, images, labels, half=True)
        keep(graphs_off=[_apart(*pair) for pair in zip(found_here, expected, strict=True)])

    attempt("graphing", replace_and_record)
    if not setting.title.endswith("dropout 0.2"):  # whose random numbers differ
        attempt("compare", compare)
    time_steps("graphs", graphed)

    for what in list(compiled):
        if f"{what}_preparation_error" not in found:
            time_steps(what, compiled[what])
            profile_steps(what, compiled[what])
        del compiled[what]

    def replace() -> None:
        report = accelerate(fast, images, HALF)
        keep(report=str(report), times={part: asdict(times) for part, times in report.times.items()})

    attempt("accelerate", replace)
    time_steps("fast", fast)

    for way, network in {"amp": plain, "graphs": graphed, "fast": fast}.items():
        profile_steps(way, network)
    keep(done=True, used_s=time.perf_counter() - started, peak_mib=torch.cuda.max_memory_allocated() / 2**20)


_COLUMNS = ("amp", "compiled", "compiled_graphs", "fast", "graphs")


def tabulate(found: list[dict[str, Any]]) -> str:
    """Return a line for each network: step times in ms, ratios, and how far results are from fp32."""
    lines = [
        f"{'network':38} {'AMP':>8} {'compile':>8} {'graphs':>8} {'ours':>8} {'graphs':>8} {'ratio':>6} {'graphs':>6}"
        "  outputs, gradients off from fp32: AMP / ours"
    ]
    ratios, graphed = [], []
    for one in found:
        times = {what: min(one.get(f"{what}_ms") or [float("nan")]) for what in _COLUMNS}
        bars = (times[what] for what in ("amp", "compiled", "compiled_graphs"))
        best = min(value for value in (*bars, float("inf")) if value == value)
        ratio, with_graphs = best / times["fast"], best / times["graphs"]
        ratios += [ratio] if 0 < ratio < float("inf") else []
        graphed += [with_graphs] if 0 < with_graphs < float("inf") else []
        checked = one.get("checked", {})
        off = "  ".join(
            f"{checked.get(f'amp_{kind}', -1):.1e} / {checked.get(f'fast_{kind}', -1):.1e}" for kind in ("out", "gradient")
        )
        numbers = " ".join(f"{times[what]:8.2f}" for what in _COLUMNS)
        lines.append(f"{one['title'][:38]:38} {numbers} {ratio:6.2f} {with_graphs:6.2f}  {off}")
        errors = [f"{key[:-6]}: {one[key].splitlines()[0][:110]}" for key in one if key.endswith("_error")]
        lines += [f"    {error}" for error in errors]
        if times["compiled"] != times["compiled"] and times["compiled_graphs"] != times["compiled_graphs"]:
            lines.append("    torch.compile was not measured: the ratio is to AMP alone")
    for title, values in (("ratio", ratios), ("with graphs", graphed)):
        if values:
            ordered = sorted(values)
            middle = (ordered[(len(ordered) - 1) // 2] + ordered[len(ordered) // 2]) / 2
            lines.append(f"{title}: median {middle:.2f}, least {ordered[0]:.2f} of {len(ordered)}")
    return "\n".join(lines)


class Bench:
    """Processes that measure one network each, and the files that they leave."""

    def __init__(self, names: list[str], out: Path, seconds: float, profiled: bool) -> None:
        """Take the networks, the folder of the results, the time for all of them, and whether they are profiled."""
        self._names, self._out, self._seconds, self._profiled = names, out, seconds, profiled
        self._begun = time.perf_counter()
        self._work = Path("/tmp/accelerate-networks")
        self._work.mkdir(exist_ok=True)
        self._processes: dict[str, subprocess.Popen[bytes]] = {}

    def elapsed(self) -> float:
        """Return the seconds since the start."""
        return time.perf_counter() - self._begun

    def start(self, name: str, compiled: str) -> None:
        """Start a network's process; `compiled`: the ways of torch.compile that it measures, too."""
        for suffix in ("ready", "go", "json"):
            (self._work / f"{name}.{suffix}").unlink(missing_ok=True)
        command = [sys.executable, __file__, "--one", name, "--out", str(self._work), "--compile", compiled]
        command += ["--profile"] if self._profiled else []
        environment = {
            **os.environ,
            "TORCHINDUCTOR_COMPILE_THREADS": "2",
            "OMP_NUM_THREADS": "2",
            "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
        }
        with (self._work / f"{name}.log").open("wb") as log:
            self._processes[name] = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, env=environment)

    def wait_ready(self, names: list[str], until: float) -> list[str]:
        """Return the networks that are ready, or have ended, at the latest after this share of the time."""
        while self.elapsed() < until * self._seconds and not all(map(self._is_ready, names)):
            time.sleep(0.2)
        return [name for name in names if self._is_ready(name)]

    def _is_ready(self, name: str) -> bool:
        return (self._work / f"{name}.ready").exists() or self._processes[name].poll() is not None

    def stop(self, name: str) -> None:
        """Kill a network's process, if it still runs."""
        self._processes[name].kill()
        self._processes[name].wait()

    def measure(self, name: str) -> None:
        """Let a network's process measure, and write the results of all so far."""
        (self._work / f"{name}.go").touch()
        try:
            self._processes[name].wait(max(min(self._seconds - self.elapsed(), 60.0), 1.0))
        except subprocess.TimeoutExpired:
            self.stop(name)
        self.write()
        print(f"{name}: ended with {self._processes[name].returncode} after {self.elapsed():.0f} s", flush=True)

    def write(self) -> None:
        """Write what the processes have found."""
        files = [self._work / f"{name}.json" for name in self._names]
        found = [json.loads(file.read_text()) for file in files if file.exists()]
        (self._out / "networks.json").write_text(json.dumps(found, indent=1))
        reports = [f"== {one['title']}\n{one.get('graphs_report', '')}" for one in found]
        (self._out / "networks.txt").write_text(tabulate(found) + "\n\n" + "\n\n".join(reports))
        logs = [f"== {name}\n{(self._work / f'{name}.log').read_text(errors='replace')[-3000:]}" for name in self._names]
        (self._out / "networks.log").write_text("\n".join(logs))


def run_all(names: list[str], out: Path, seconds: float, profiled: bool, compiled: str) -> None:
    """Run each network in a process of its own, and write what is found as it comes."""
    bench = Bench(names, out, seconds, profiled)
    for name in names:
        bench.start(name, compiled)
    ready = bench.wait_ready(names, 0.5)
    late = [name for name in names if name not in ready]
    for name in late:  # a compiler that is still at work would disturb the others
        bench.stop(name)
        bench.start(name, "")
    print(f"prepared after {bench.elapsed():.0f} s; too late for torch.compile: {late or 'none'}", flush=True)
    bench.wait_ready(late, 0.65)
    for name in [*ready, *late]:
        bench.measure(name)
    bench.write()
    print((out / "networks.txt").read_text().split("\n\n")[0])


def main() -> None:
    """Take the options."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(SETTINGS))
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seconds", type=float, default=220.0)
    parser.add_argument("--profile", action="store_true", help="also keep which kernels take how long in a step")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument(
        "--compile",
        default="compiled_graphs",
        metavar="WAYS",
        help="what of torch.compile is measured: compiled, compiled_graphs, or both with a comma; nothing: ''",
    )
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    if given.one:
        measure(given.one, given.out, set(given.compile.split(",")), given.profile)
    else:
        names = given.names or list(SETTINGS)
        run_all(names, given.out, given.seconds, given.profile, given.compile)


if __name__ == "__main__":
    main()
