"""A report on a results folder as a document: the same for the page and for Markdown."""

from speedproof.report.accounts import draw_bars, draw_waterfall, read_accounts
from speedproof.report.document import Document, Element, Link, Marked, Markup, Picture, Section, Table, Text, Words
from speedproof.report.figures.figure_data import Evidence
from speedproof.report.findings import (
    describe_ablation,
    describe_container,
    describe_differences,
    describe_limits,
    describe_noise,
    describe_variants,
    describe_verdicts,
    list_commands,
)
from speedproof.report.first_screen import compose_first_screen
from speedproof.report.headlines import describe_headlines, name_case, tabulate_speedups
from speedproof.report.ranks_section import describe_rank_variants, list_rank_notes, list_rank_times, list_scalings
from speedproof.report.report_tables import (
    group_unmeasured,
    list_ablation,
    list_claims,
    list_container_costs,
    list_further,
    list_incomparable_variants,
    list_levels,
    list_overheads,
    list_phases,
    list_qualities,
    list_ratios,
    list_roofline,
    list_ways_to_quality,
)
from speedproof.report.setup_sections import (
    compose_conditions,
    compose_environment,
    compose_numbers,
    compose_runs,
    compose_unmeasured,
    name_profilers,
)
from speedproof.report.timeline.fragment import TracedVariant
from speedproof.util.numbers import format_count
from speedproof.util.text import capitalize

_GEOMETRIC = "Means are geometric; for shares, arithmetic."
_ABLATION = 30  # stages: a longer one is folded
_OUTCOMES = Marked(
    "*Reproduced*: the 95 % interval lies in the documented range. *Exceeded*: it lies wholly beyond it, on the better side (a "
    "shorter time, a higher ratio or share). *Not reproduced here*: wholly beyond it on the other side, in these runs' "
    "conditions. *Inconclusive*: neither, fewer than four pairs or runs, or less than what a source calls possible. *Not "
    "comparable*: a time, a memory or an energy on other hardware, a quality or the way to one on other data, a total of other "
    "epochs, or a ratio whose faster variant learns less. A documented range holds what rounds to the printed digits; if these "
    "do not say how exact a number is, its tolerance stands beside it. Numbers that were documented under a profiler are "
    "compared with runs under one, if there are any."
)


def compose_document(
    evidence: Evidence, pictures: dict[str, Picture] | None = None, timeline: Markup | None = None
) -> Document:
    """Return the report on a results folder, with figures by their names and a timeline where they are given."""
    return _Composer(evidence, pictures or {}, timeline).compose()


def find_timeline_variants(evidence: Evidence) -> list[TracedVariant]:
    """Return the variants whose traces a page shows: those of the main ratio where they have one, else the first two."""
    traced = list(evidence.traces)
    main = next(((one.against.name, one.subject.name) for one in evidence.answer.mains if one.kind == "ratio"), ())
    chosen = [name for name in main if name in traced]
    shown = [evidence.traces[name][0] for name in (chosen if len(chosen) == 2 else traced[:2])]
    return [TracedVariant(run.title, run.trace) for run in shown]


class _Composer:
    def __init__(self, evidence: Evidence, pictures: dict[str, Picture], timeline: Markup | None) -> None:
        self.evidence, self.comparison = evidence, evidence.comparison
        self.pictures, self.timeline = pictures, timeline
        self.quality = evidence.comparison.quality

    def compose(self) -> Document:
        case = name_case(self.evidence.results.runs[0].run.case)
        kind = "documented speedups" if self.comparison.claims else "speedups"
        title = f"{case[:1].upper()}{case[1:]}: {kind}, measured"
        use = "Further measurements" if self.comparison.conditions.device == "cpu" else "GPU utilisation, memory, power"
        parts: list[tuple[str, str, list[Element]]] = [
            ("reach", "What these numbers can and cannot show", self._reach()),
            ("why", "Why", self._why()),
            ("timeline", "Timeline", [self.timeline] if self.timeline else []),
            ("claims", "Documented against measured", self._claims()),
            ("ablation", "The ablation", self._ablation()),
            ("unmeasured-claims", "Documented, not measured here, and what it would take", self._unmeasured_claims()),
            ("speed", "Speed without a profiler", self._speed()),
            ("quality", "Quality", self._quality()),
            ("way", f"Way to a {self.quality.title}", self._way()),
            ("gpus", "Several GPUs", self._gpus()),
            ("use", use, self._use()),
            ("kernels", "Kernels", self._show("kernels")),
            ("phases", "Phases", self._phases()),
            ("limit", "How near to the machine's limit", self._limit()),
            ("profiling", "What profiling costs", self._profiling()),
            ("container", "What the container costs", self._container()),
            ("conditions", "What ran on what", compose_conditions(self.evidence)),
            ("runs", "Runs", compose_runs(self.evidence)),
            ("environment", "Environment", compose_environment(self.evidence)),
            ("again", "Run this again", self._again()),
            ("unmeasured", "What could not be measured or used here", compose_unmeasured(self.evidence)),
            ("numbers", "How the numbers are made", compose_numbers(self.evidence)),
        ]
        unfolded = {"reach", "why", "timeline", "claims", *(["ablation"] if len(self.comparison.ablation) <= _ABLATION else [])}
        sections = [Section(anchor, name, elements, anchor not in unfolded) for anchor, name, elements in parts if elements]
        return Document(title, compose_first_screen(self.evidence), sections)

    def _reach(self) -> list[Element]:
        elements: list[Element] = []
        speedups, unequal = (tabulate_speedups(self.comparison, unequal=apart) for apart in (False, True))
        device = self.comparison.conditions.device_name()
        counted = " where machines are not counted" if any(ratio.scope == "model" for ratio in self.comparison.ratios) else ""
        for rows, what in (
            (speedups, ""),
            (unequal, " where variants do unequal work in an epoch, so that a shorter one is not a faster one alone;"),
        ):
            if rows:
                lead = (
                    f"How many times as fast a variant is as another{what or ','} each on one machine{counted} ({device}; "
                    "95 % intervals):"
                )
                elements += [Text([lead]), Table(rows[0], rows[1:])]
        sentences = [
            capitalize(sentence) for sentence in describe_headlines(self.comparison, tabulated=bool(speedups or unequal))
        ]
        if not sentences and not speedups and not unequal:
            ablation = "the ablation and " if len(self.comparison.ablation) > 1 else ""
            sentences = [f"No two variants could be compared: see {ablation}the runs below."]
        lines = [
            *sentences,
            *describe_noise(self.evidence.answer),
            *describe_container(self.evidence.answer),
            *describe_limits(self.evidence),
        ]
        return [*elements, Text(lines, bullets=True)]

    def _why(self) -> list[Element]:
        accounts = read_accounts(self.evidence)
        elements: list[Element] = []
        if accounts:
            elements.append(draw_bars(list(accounts.values())))
            if waterfall := self._choose_waterfall():
                elements.append(draw_waterfall(accounts[waterfall[1]], accounts[waterfall[0]]))
        sentences = [
            *describe_variants(self.evidence),
            *describe_rank_variants(self.evidence),
            *describe_differences(self.evidence),
        ]
        if sentences:
            elements.append(Text(sentences, bullets=True))
        return elements

    def _choose_waterfall(self) -> tuple[str, str] | None:
        """Return the faster and the slower of the first two compared variants that both have a trace."""
        accounts = read_accounts(self.evidence)
        for main in self.evidence.answer.mains:
            fast, slow = (one.name for one in main.faster_first)
            if main.kind == "ratio" and fast in accounts and slow in accounts:
                return fast, slow
        return None

    def _claims(self) -> list[Element]:
        if not self.comparison.claims:
            return []
        claims = list_claims(self.comparison)
        elements: list[Element] = [Text([describe_verdicts(self.comparison)])]
        if claims.rows:
            header = ["Claim", "Outcome", "Measured", "Documented", "Spread", "Hardware", "Conditions", "From"]
            rows: list[list[Words]] = [
                [Link(text, url), Marked(f"**{outcome}**"), measured, documented, spread, hardware, letters, reason]
                for text, url, hardware, documented, measured, spread, outcome, letters, reason in claims.rows
            ]
            elements.append(Table(header, rows))
            elements.append(Text(["What differs from the documented measurement:"]))
            elements.append(
                Text(
                    [[Marked(f"**{letter}**"), ": ", condition] for letter, condition in claims.conditions.items()],
                    bullets=True,
                )
            )
            elements.append(Text([_OUTCOMES]))
        else:
            elements.append(Text(["No documented number could be measured."]))
        return elements

    def _unmeasured_claims(self) -> list[Element]:
        rows: list[list[Words]] = [
            [Link(claim.text, claim.url), claim.documented, claim.hardware, reason]
            for reason, group in group_unmeasured(self.comparison).items()
            for claim in group
        ]
        return [Table(["Claim", "Documented", "Hardware", "What it would take"], rows)] if rows else []

    def _ablation(self) -> list[Element]:
        ablation = self.comparison.ablation
        if len(ablation) < 2:
            return []
        gains = len(ablation) - 1
        notes = [
            "A stage's time and its gain are the exponentials of the mean logarithms of its timed runs and pairs, its "
            f"{self.quality.title} the median of their best. What changed in the trace is the exact difference of two profiled "
            "runs, without an interval; –: less than 1 % of an epoch, or one of the two has no trace here. If no stage made a "
            f"difference, {gains / 20:g} of {format_count(gains, 'interval')} of 95 % would leave 1 out by chance.",
            *describe_ablation(self.comparison),
        ]
        header = [
            "Stage",
            "Changes",
            "Training epoch",
            "Gain",
            "95 % interval",
            f"Best {self.quality.title}",
            "Largest changes in the trace, a training epoch",
        ]
        return [*self._show("ablation"), Table(header, list_ablation(self.comparison), notes)]

    def _speed(self) -> list[Element]:
        elements: list[Element] = [*self._show("epoch_times")]
        if ratios := list_ratios(self.comparison):
            notes = [
                "Reference / candidate: above 1 the candidate is faster. Ratios are formed inside an experiment, between runs "
                "of the same seed."
            ]
            if self.comparison.noise_floor:
                notes.append("The noise floor is the first variant against itself, measured the same way.")
            elements.append(Table(["Metric", "Variants", "Ratio", "95 % interval", "Pairs"], ratios, notes))
        if levels := list_levels(self.comparison):
            elements.append(Table(["Variant", "Metric", "Mean", "95 % interval", "Runs"], levels, [_GEOMETRIC]))
        if incomparable := list_incomparable_variants(self.comparison):
            elements.append(Text(["Not compared, since more than the techniques differed inside an experiment:"]))
            elements.append(Table(["Experiment", "Mode", "Variants", "Differs"], incomparable))
        return elements

    def _quality(self) -> list[Element]:
        if self.evidence.proof and not self.evidence.tells_quality:
            return []
        elements: list[Element] = [*self._show("convergence")]
        if qualities := list_qualities(self.comparison):
            notes, rule = [], self.quality
            if rule.margin is not None:
                lower, above = ("lower", "above") if rule.better == "higher" else ("higher", "below")
                judged = (
                    f", judged if the other variant's is {above} {rule.format(rule.judged_above)}"
                    if rule.judged_above is not None
                    else ""
                )
                notes.append(
                    "By the rule in plan.json, which was written before the first run: a speedup is withheld if the faster "
                    f"variant's best {rule.title} is {lower} by more than {rule.format(rule.margin)}{judged}."
                )
            elements.append(Table(["Variants", f"Equal quality (the faster variant's {rule.title} first)"], qualities, notes))
        return elements

    def _way(self) -> list[Element]:
        ways = list_ways_to_quality(self.comparison)
        if not ways:
            return []
        header = [
            self.quality.title,
            "Variant",
            "Runs that reached it",
            "Epochs",
            "Training clock",
            "From the start of the process",
            "Ratio, training clock",
            "Ratio, from the start",
        ]
        prepared = (
            ", except preparing volumes before it, if a variant starts from prepared ones" if self.comparison.prepared else ""
        )
        note = (
            "The training clock leaves out the fill of the cache and the first step, which holds compilation and warm-up; the "
            f"time from the start of the process holds them all{prepared}."
        )
        return [Table(header, ways, [note])]

    def _gpus(self) -> list[Element]:
        elements: list[Element] = []
        if scalings := list_scalings(self.comparison):
            note = Marked(
                "Efficiency is what a GPU of the larger variant gets done in a second (training samples) against one of the "
                "smaller variant: 1 if nothing is lost. *Weak*: each GPU has the same work, so it is the ratio of the epochs' "
                "times. *Strong*: all of them share the work of one. An epoch takes as long as on its slowest rank."
            )
            header = ["Variant", "Variant on more GPUs", "GPUs", "Scaling", "Efficiency", "95 % interval", "Pairs"]
            elements.append(Table(header, scalings, [note]))
        if times := list_rank_times(self.evidence):
            note = Marked(
                "Seconds an epoch of the profiled run. *Lost to imbalance*: between any two collectives, what the slowest rank "
                "computes longer than this one. *Communication*: time in communication kernels, in which a rank also waits for "
                "the others; *exposed* while no other kernel runs beside it. The report's phases, kernels and idle time of "
                "such a run are read from rank 0's trace."
            )
            header = [
                "Variant",
                "Rank",
                "Epoch",
                "Lost to imbalance",
                "Of that in training",
                "Communication",
                "Hidden",
                "Exposed",
            ]
            elements.append(Table(header, times, [note]))
            if notes := list_rank_notes(self.evidence):
                elements.append(Text(notes, bullets=True))
        return elements

    def _use(self) -> list[Element]:
        elements: list[Element] = [*self._show("utilisation")]
        if further := list_further(self.comparison):
            note = "A ratio above 1 means that the variant is better than the first one: it takes less, or gets more done."
            header = ["Metric", "Variant", "Mean", "95 % interval", "Runs", "Ratio to the first variant"]
            elements.append(Table(header, further, [note]))
        return elements

    def _phases(self) -> list[Element]:
        phases = list_phases(self.evidence)
        if not phases:
            return []
        recorders = " and ".join(name_profilers(self.evidence))
        note = (
            f"Sums over the profiled run, recorded by {recorders}. The GPU's time is that of the kernels and copies "
            "which the phase launched, overlaps counted once."
        )
        header = ["Variant", "Part", "Phase", "Calls", "Time on the CPU", "Share of the part", "GPU busy for it"]
        return [Table(header, phases, [note])]

    def _limit(self) -> list[Element]:
        bounds = list_roofline(self.comparison)
        if not bounds:
            return []
        note = (
            "Arithmetic is that of forward and backward. Traffic is a bound from below: each convolution's input and "
            "output, moved three "
            "times in half precision; all else could be fused into a convolution. The rates were measured on the same GPU "
            "right after the "
            "runs."
        )
        header = [
            "Variant",
            "Arithmetic an epoch",
            "Least traffic",
            "At the measured rate of products",
            "Of copies",
            "Training epoch",
            "Share of the bound",
        ]
        return [*self._show("roofline"), Table(header, bounds, [note])]

    def _profiling(self) -> list[Element]:
        overheads = list_overheads(self.comparison)
        if not overheads:
            return []
        note = Marked(
            "*profiled*: under the profiler. *documented*: as the documented numbers were taken, with autograd's own NVTX "
            "ranges on top. "
            "Below 1: runs differ by more than what the profiler costs."
        )
        return [Table(["Variant", "Mode", "Training epoch against timed runs"], overheads, [note])]

    def _container(self) -> list[Element]:
        costs = list_container_costs(self.comparison)
        note = (
            "Whole experiments inside and outside the image, by turns on one GPU, paired in the order they ran; timed runs of "
            "the same seed."
        )
        header = ["Variant", "Metric", "Outside", "Inside / outside", "95 % interval", "Pairs"]
        return [Table(header, costs, [note])] if costs else []

    def _again(self) -> list[Element]:
        return [*list_commands(self.evidence)]

    def _show(self, name: str) -> list[Element]:
        return [self.pictures[name]] if name in self.pictures else []
