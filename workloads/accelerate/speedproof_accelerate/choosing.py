"""Which parts of a network stay: those that are faster than torch's own, unless the network as a whole is then slower."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from speedproof_accelerate.arrangement import Arrangement, lay_out
from speedproof_accelerate.decisions import Decisions
from speedproof_accelerate.measuring import (
    Stopwatch,
    Times,
    Training,
    measure_arrangements,
    note_calls,
    recall_arrangements,
)
from speedproof_accelerate.parts import Part
from speedproof_accelerate.report import Entry, Report

# The second arrangement has the fewest parts that make this share of the saving of all parts. Each part also costs launches,
# so fewer parts can be faster.
_MOST_OF_IT = 0.9
_NOISE = 0.97  # the network must be so much faster with its parts at least
AS_IT_WAS, CHANNELS_LAST = "as it was", "torch's own, channels last"


@dataclass
class Replaced:
    """A network with parts in the places of modules."""

    parts: dict[str, Part] = field(default_factory=dict)
    replaced: list[Entry] = field(default_factory=list)
    kept: list[Entry] = field(default_factory=list)


# Replaces modules of the network as it was, except for those of these names, which stay for these reasons.
Replace = Callable[[Mapping[str, str]], Replaced]


@dataclass
class Chooser:
    """Chooses what is replaced in a network.

    Attributes:
        training: of the network as it was; if its passes will be launched as graphs, only parts are compared.
        replace: replaces its modules.
        decisions: times that are known.
    """

    training: Training
    replace: Replace
    decisions: Decisions

    def __post_init__(self) -> None:
        """Note what distinguishes the network, before anything is replaced."""
        self._plain = Arrangement.of(self.training.network)
        self._about = self.training.describe()
        self._stopwatch = Stopwatch(self.training.precision, self.training.graphs, self.decisions)
        self._made = self.replace({})
        self._calls = note_calls(self.training, self._made.parts)

    def recall(self, report: Report) -> Replaced | None:
        """Install and return the fastest arrangement if all times are known; otherwise install all parts."""
        known = {name: self._stopwatch.recall(self._made.parts[name], call) for name, call in self._calls.items()}
        times = {name: one for name, one in known.items() if one is not None}
        if len(times) == len(known):
            left = self._find_slower(times)
            arrangements = {} if self.training.graphs else self._arrange(left, times)
            if (found := recall_arrangements(self._about, arrangements, self.decisions)) is not None:
                report.times = times
                return self._install(left, arrangements, found, report)
        self._made = self.replace({})
        return None

    def list_passes(self) -> list[Callable[[], None]]:
        """Return what launches the kernels that will be measured."""
        return self._stopwatch.list_passes((self._made.parts[name], call) for name, call in self._calls.items())

    def measure(self, report: Report) -> Replaced:
        """Measure what is not known; install and return the fastest arrangement; the kernels are compiled."""
        report.times = {name: self._stopwatch.measure(self._made.parts[name], call) for name, call in self._calls.items()}
        left = self._find_slower(report.times)
        arrangements = {} if self.training.graphs else self._arrange(left, report.times)
        found = recall_arrangements(self._about, arrangements, self.decisions)
        if found is None:
            # In another layout, a network is hardly twice as fast, and cuDNN would search for kernels again.
            similar = {AS_IT_WAS: CHANNELS_LAST}
            installs = {name: one.install for name, one in arrangements.items()}
            found = measure_arrangements(self.training, installs, similar)
            for name, ms in found.items():
                self.decisions.note(("network", name, *self._about), [ms])
        return self._install(left, arrangements, found, report)

    def _find_slower(self, times: Mapping[str, Times]) -> dict[str, str]:
        """Return the parts that are not faster than torch's own, each with a note for the report."""
        notes = {entry.name: entry.note for entry in self._made.replaced}
        slower = [name for name, one in times.items() if not one.pays and name in notes]
        return {name: f"torch's own is not slower than {notes[name]}" for name in slower}

    def _arrange(self, left: dict[str, str], times: Mapping[str, Times]) -> dict[str, "_Choice"]:
        """Return the arrangements among which to choose, by their names."""
        self._plain.install()
        choices = {}
        if lay_out(self.training.network):
            choices[CHANNELS_LAST] = _Choice(self, None, Arrangement.of(self.training.network))
        choices[AS_IT_WAS] = _Choice(self, None, self._plain)
        with_parts = _list_choices(self.replace(left), left, times)
        return {name: _Choice(self, one) for name, one in with_parts.items()} | choices

    def _install(
        self, left: dict[str, str], arrangements: dict[str, "_Choice"], found: Mapping[str, float], report: Report
    ) -> Replaced:
        """Install the fastest arrangement.

        Without parts, convolutions' weights are channels last or as they were, whichever is faster. The fastest arrangement
        with parts must be faster than both by more than noise.
        """
        if not arrangements:
            return self.replace(left)
        plain = [name for name, one in arrangements.items() if one.left is None]
        without = min(plain, key=lambda name: found[name])
        fastest = min((name for name in arrangements if name not in plain), key=lambda name: found[name], default=without)
        report.whole, report.arrangements = Times(found[fastest], found[without]), dict(found)
        chosen = arrangements[fastest].left
        if chosen is not None and found[fastest] < _NOISE * found[without]:
            return self.replace(chosen)
        made = self.replace(left)
        arrangements[without].install()
        order = "channels last" if without == CHANNELS_LAST else "as it was"
        slower = f"the network takes {found[fastest]:.2f} ms with its parts, and {found[without]:.2f} ms without, {order}"
        return Replaced({}, [], [*made.kept, *(Entry(one.name, one.module, slower) for one in made.replaced)])


@dataclass
class _Choice:
    """An arrangement: what it leaves to torch, or None for all; and how it is installed, once it has been."""

    chooser: Chooser
    left: dict[str, str] | None
    made: Arrangement | None = None

    def install(self) -> None:
        if self.made is not None:
            self.made.install()
        elif self.left is not None:
            self.chooser.replace(self.left)
            self.made = Arrangement.of(self.chooser.training.network)


def _list_choices(made: Replaced, left: dict[str, str], times: Mapping[str, Times]) -> dict[str, dict[str, str]]:
    """Return what is left to torch in each arrangement with parts, by the arrangement's name.

    All parts that are faster; the few that save most of the time; and none, if other modules are replaced, too.
    """
    notes = {entry.name: entry.note for entry in made.replaced if entry.name in made.parts}
    saved = {name: times[name].torch_ms - times[name].kernel_ms for name in notes if name in times}
    few, rest = set(), _MOST_OF_IT * sum(saved.values())
    for name in sorted(saved, key=lambda name: -saved[name]):
        if rest > 0:
            few.add(name)
            rest -= saved[name]
    others = {name: f"the network is faster without {note}" for name, note in notes.items()}
    choices = [left, left | {name: note for name, note in others.items() if name not in few}, left | others]
    named = {_name(notes.keys() - one.keys()): one for one in choices}
    if len(made.replaced) == len(notes):  # nothing else is replaced
        named.pop(_name(set()), None)
    return named


def _name(parts: set[str]) -> str:
    return f"with parts: {', '.join(sorted(parts)) or 'none'}"
