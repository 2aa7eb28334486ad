"""What `accelerate` tells about what it did."""

from collections import Counter
from dataclasses import dataclass, field

from speedproof_accelerate.measuring import Times


@dataclass(frozen=True)
class Entry:
    """A module of the network: its name, its type, and what was done with it, or why not."""

    name: str
    module: str
    note: str


@dataclass
class Report:
    """What `accelerate` did.

    Attributes:
        replaced: modules that a part replaces.
        kept: modules that stayed torch's, each with the reason.
        bound: why no kernel runs at present (no GPU, no Triton); None: kernels run.
        times: of each measured part, by its name: forward and backward, by the kernel and by torch.
        whole: times of the network, if measured: the fastest with parts, and the fastest without.
        arrangements: ms of a training pass of the network in each way that was measured, by its name.
        remembered: how many of these times an earlier call, possibly of another process, measured.
        graphed: whether the network's passes are launched as graphs.
        omitted: requests that were not fulfilled, each with the reason.
        phases: seconds that each phase of the call took.
    """

    replaced: list[Entry] = field(default_factory=list)
    kept: list[Entry] = field(default_factory=list)
    bound: str | None = None
    times: dict[str, Times] = field(default_factory=dict)
    whole: Times | None = None
    arrangements: dict[str, float] = field(default_factory=dict)
    remembered: int = 0
    graphed: bool = False
    omitted: list[str] = field(default_factory=list)
    phases: dict[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        """Return one line per kind of replaced and of kept modules."""
        lines = [] if self.bound is None else [f"All is computed by torch: {self.bound}."]
        lines += ["Forward and backward are launched as a CUDA graph each."] if self.graphed else []
        lines += [f"{self.remembered} times were measured by an earlier call."] if self.remembered else []
        lines += self.omitted
        replaced = "replaced" if self.bound is None else "would be replaced where kernels run"
        for title, entries in ((replaced, self.replaced), ("kept", self.kept)):
            lines.append(f"{title}: {len(entries)}")
            kinds = Counter((entry.module, entry.note) for entry in entries)
            for (module, note), count in kinds.items():
                first = next(entry.name for entry in entries if (entry.module, entry.note) == (module, note))
                others = f" and {count - 1} more" if count > 1 else ""
                lines.append(f"  {module}: {note} ({first}{others})")
        return "\n".join(lines)
