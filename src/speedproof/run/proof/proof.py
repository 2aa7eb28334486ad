"""A proof from its commands to its verdict: copy, warm-up, plan, experiment, and what it found."""

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from speedproof.cluster.apptainer import find_apptainer
from speedproof.cluster.folder_names import check_folders
from speedproof.cluster.gpu_monitor import describe_gpu, list_gpu_uuids, name_gpu_processes
from speedproof.cluster.machine_load import read_counters, read_load
from speedproof.profilers.nsys import read_capabilities
from speedproof.report.document import PAGE_FILE, join_words
from speedproof.report.figures.figure_data import Evidence
from speedproof.report.first_screen import compose_first_screen
from speedproof.report.report_tables import describe_utilization
from speedproof.results.asked import ASKED_FILE, Asked, read_asked
from speedproof.results.evidence_archive import OLD_EXPERIMENTS_FOLDER
from speedproof.results.files import digest_of, write_text
from speedproof.results.observations import Unseen, name_unseen
from speedproof.results.run_record import PROGRAMS
from speedproof.run.archive.rebuild import rebuild_report
from speedproof.run.caches import list_replaced
from speedproof.run.commits import CommitTrees, export_commit, resolve_commit
from speedproof.run.locks import holding_folder
from speedproof.run.mirrored_folders import count_mirrored
from speedproof.run.printed_times import UNIT_TITLES
from speedproof.run.program_variables import (
    deciding_variables,
    digest_variables,
    list_secrets,
    list_unprofiled,
    note_changed,
)
from speedproof.run.proof.attempts import draw_order_seed, note_attempt
from speedproof.run.proof.command_lookup import resolve_command
from speedproof.run.proof.executor import LocalExecutor
from speedproof.run.proof.find import RESULTS, VERDICT_FILE, read_verdict
from speedproof.run.proof.judging import describe_evaluation, tell_source
from speedproof.run.proof.left_files import DIGESTS, Snapshot, take_snapshot
from speedproof.run.proof.live_status import Status
from speedproof.run.proof.metric_needs import check_epochs, name_gpu_need
from speedproof.run.proof.plan_notes import (
    count_readings,
    describe_stop_after,
    describe_warm_caches,
    find_counted,
    name_rate,
    question_batch_sizes,
)
from speedproof.run.proof.progress import Progress
from speedproof.run.proof.quality_questions import question_direction, question_units
from speedproof.run.proof.quiet import describe_machine, wait_aloud
from speedproof.run.proof.request import ProofRequest
from speedproof.run.proof.rounds_check import check_rounds
from speedproof.run.proof.snakemake import ProfileExecutor, find_profile
from speedproof.run.proof.stop_after import count_round_s, propose_stop, question_budget
from speedproof.run.proof.typed_call import describe_asked
from speedproof.run.proof.variant_labels import call_variants, name_variants, title_variants
from speedproof.run.proof.verdict import Verdict, add_terms, choose_metric, judge
from speedproof.run.proof.warm_up import WarmUp
from speedproof.run.proof.workspace import (
    ProofBasis,
    ProofSetup,
    check_out,
    describe_commit,
    digest_sources,
    read_measurement,
    write_claims,
)
from speedproof.run.read_progress import SOURCES
from speedproof.stats.measure_names import name_measure
from speedproof.stats.metrics import METRICS
from speedproof.util.errors import ConfigError, ProfilingError, RecordError, SpeedproofError
from speedproof.util.image_file import identify_image
from speedproof.util.numbers import format_count, format_duration, format_value
from speedproof.util.secrets import scrub_command
from speedproof.util.sources import digest_files

Say = Callable[[str], None]
WARM_UP_FILE = "warm-up.json"
# Keys of a request that do not affect the warm-up.
_UNWARMED = {
    *("names", "claim", "metric", "rounds", "budget_min", "control", "profiled", "wait", "wait_for_quiet_min", "trust_reported")
}
_CACHES = {
    "cold": "caches: cold; each run starts with empty compile caches",
    "shared": "caches: shared; runs use your compile caches and see what earlier runs left there",
}
_START = {
    "copy": "each in a fresh copy of the working folder",
    "commit": "each in a fresh copy of its commit",
    "here": "all in the working folder itself; {run} in a command is a fresh folder",
}


def prove_request(request: ProofRequest, out: Path, source: Path, status: Status, trees: CommitTrees | None = None) -> Verdict:
    """Prove a request in the folder `out`, of commands that run in copies of the folder `source`.

    If `trees` are given, each command runs in copies of its own commit. The plan and the progress go to `status`. Completed
    runs of an interrupted call are kept if commands and files are the same.

    Raises:
        SpeedproofError: in the class of what failed; no measurement is lost.
    """
    status.go_on_with("checking the commands and their folder")
    check_out(out, source)
    folders = {"--out": out.absolute(), "$TMPDIR": Path(tempfile.gettempdir())}
    check_folders(folders, workflow=request.profile is not None)
    commands, judging = _resolve(request, source)
    held = ExitStack()
    executor = ProfileExecutor(out, request, status) if request.profile else LocalExecutor(out, request, status, held)
    variables = deciding_variables(os.environ, request.passed, request.dropped)
    digests = {**digest_sources(source, request.sources), **digest_variables(variables)}
    names = list(commands)
    load, counters = read_load(), read_counters()
    with holding_folder(out, wait_aloud(status) if request.wait else None), _naming_kept_verdict(out, status.say), held:
        _announce_replacement(request, out, status.say)
        snapshot = _take_snapshot(request, source, out, variables, trees, status)
        _name_unseen(request, status.say)
        evaluation = describe_evaluation(request, judging, snapshot, out)
        digests |= {"quality command": digest_of(evaluation.model_dump(mode="json"))} if evaluation else {}
        order_seed = draw_order_seed(out, [dict(commands), dict(digests)])
        here = source if request.workdir == "here" else None
        mirrored = count_mirrored(source) if request.workdir == "copy" and not (request.container or trees) else 0
        basis = ProofBasis(out, request, commands, snapshot, os.environ, here, mirrored, digests, evaluation, order_seed)
        measured = basis.describe(request.named_reading() or request.reading("marks"), {})
        write_claims(measured)
        found = _warm_up_once(executor, measured, request, out, [dict(commands), dict(digests)], status.say)
        if request.profile is None:
            status.say(describe_machine(load, counters, _name_on_gpu(request), request.wait_for_quiet_min is not None))
        check_epochs(request, found.epochs)
        metric = choose_metric(request, found.epochs, bool(found.reading.rate))
        basis = replace(basis, stop_after=found.stop_after)
        measured = basis.describe(found.reading, found.epochs, metric, found.observed)
        _describe_plan(request, names, found, out, order_seed, status.say)
        tell_source(request, evaluation, status.say)
        for question in (question_direction(request), question_units(found.qualities, request)):
            if question is not None:
                status.say(question)
        _take_back_verdict(out)  # not before: a mistake that is found up to here leaves an earlier one readable
        _leave_asked(describe_asked(request, metric, _read_attempt(out / RESULTS), found.reading), out / RESULTS)
        expected_s = {name: found.process_s[name] for name in names}
        called, judges = call_variants(request), request.margin is not None
        progress = Progress(measured.config.measurement, called, expected_s, status, judges)
        evidence = executor.measure(measured, progress)
        check_rounds(evidence.comparison, metric, progress.said)
        for use in evidence.comparison.utilization:
            status.say(describe_utilization(use))
        measured_of = [*map(scrub_command, request.commands), *(one.sha for one in (trees.commits if trees else {}).values())]
        attempt = note_attempt(out, out / RESULTS, measured_of)
        if attempt != _read_attempt(out / RESULTS):
            _leave_asked(describe_asked(request, metric, attempt, found.reading), out / RESULTS)
            rebuild_report(evidence.asked_again(), out / RESULTS)
        report = str(out / RESULTS / PAGE_FILE)
        verdict = judge(evidence.comparison, request, metric, found.reading, report, out)
        verdict = verdict.model_copy(update={"attempt": attempt, "why": _explain(request, evidence)})
        verdict = add_terms(verdict, evidence.differences, names)
        write_text(out / VERDICT_FILE, verdict.model_dump_json(indent=1) + "\n")
    status.pause()
    return verdict


def _name_on_gpu(request: ProofRequest) -> list[str] | None:
    """Return who else is on the GPUs that are measured; None if no GPU is."""
    return name_gpu_processes(request.gpus) if request.device != "cpu" and list_gpu_uuids() else None


def _resolve(request: ProofRequest, source: Path) -> tuple[dict[str, str], str | None]:
    """Return each variant's command as it means the same in a copy of the folder, and so the quality command if there is one.

    Raises :class:`ConfigError` with all that is wrong, and with all that is asked for and missing.
    """
    path = os.environ.get("PATH", os.defpath)
    asked = [*request.commands, *([request.quality_command] if request.quality_command else [])]
    resolved = [resolve_command(command, source, path, request.container is not None) for command in asked]
    mistakes = [*(mistake for _, found in resolved for mistake in found), *_list_missing_tools(request)]
    if mistakes:
        raise ConfigError("; ".join(dict.fromkeys(mistakes)))
    judging = resolved.pop()[0] if request.quality_command else None
    return {name: command for name, (command, _) in zip(name_variants(request), resolved, strict=True)}, judging


def _take_snapshot(
    request: ProofRequest, source: Path, out: Path, variables: Mapping[str, str], trees: CommitTrees | None, status: Status
) -> Snapshot:
    """Copy the working folder, or what is measured in its place; print what matters about it, and which `variables` changed."""
    say = status.say
    if trees is not None:
        status.go_on_with(f"checking out {' and '.join(commit.title for commit in trees.commits.values())}")
        snapshot = replace(take_snapshot(source, out, trees.fill), own_trees=frozenset(trees.commits))
    else:
        fill = partial(export_commit, resolve_commit(source, "HEAD")) if request.workdir == "commit" else None
        snapshot = take_snapshot(source, out, fill, request.commands)
    changed = [*(f"variable {name}" for name in note_changed(out, variables)), *snapshot.changed]
    if changed:
        say(f"new or changed, so everything is measured again: {_shorten(changed)}")
    if trees is not None:
        called = zip(call_variants(request).values(), trees.commits.values(), strict=True)
        say("; ".join(f"{name}: {commit.title}" for name, commit in called))
    elif commit := describe_commit(source):
        say(f"{commit}{'; only the commit is measured' if request.workdir == 'commit' else ''}")
    if snapshot.linked and request.workdir != "here":
        say(f"linked, not copied, into each run's folder: {_shorten(sorted(snapshot.linked))}")
    if snapshot.special:
        say(f"no files, so not copied: {_shorten([f'{name} ({kind})' for name, kind in sorted(snapshot.special.items())])}")
    if snapshot.left_out:
        say(f"hidden from the commands, because this proof is in it: {_shorten(snapshot.left_out)}")
    return snapshot


def _name_unseen(request: ProofRequest, say: Say) -> None:
    """Name the caller's variables that programs do not see as they are."""
    if secrets := list_secrets(os.environ, request.passed, request.dropped):
        say(f"hidden from the commands, because their names look like secrets: {_offer(secrets)}")
    if request.caches != "shared" and (replaced := list_replaced(os.environ)):
        say(f"replaced by a private folder for each run: {_shorten(replaced)} (--caches shared keeps yours)")
    if request.profiled and (unprofiled := list_unprofiled(os.environ, request.passed, request.dropped)):
        say(f"hidden from profiled runs only, because traces store the environment: {_offer(unprofiled)}")


def _offer(names: list[str]) -> str:
    one = names[0] if len(names) == 1 else "NAME"
    return f"{_shorten(names)} (--pass {one} lets {'it' if len(names) == 1 else 'one'} through)"


def _announce_replacement(request: ProofRequest, out: Path, say: Say) -> None:
    """Print which earlier proof this one replaces once its warm-up has passed, and whether its rounds count."""
    try:
        before = read_verdict(out)
    except RecordError:
        say(f"{out / VERDICT_FILE} is damaged; this proof replaces it")
        before = None
    if before is not None:
        held = [before.candidates[0].against, *(one.command for one in before.candidates)]
        if set(held) != set(map(scrub_command, request.commands)):
            say(f"{out} holds a proof of other commands; this one replaces it (--out chooses another folder)")
        else:
            _compare_rounds(request, out, say)
    if (out / RESULTS / OLD_EXPERIMENTS_FOLDER).is_dir():
        say(f"{out} holds a proof from a version before 0.3; this one replaces it and measures everything again")


@contextmanager
def _naming_kept_verdict(out: Path, say: Say) -> Iterator[None]:
    """If a call fails before its warm-up passed, print that the verdict in `out` is an earlier one."""
    try:
        yield
    except BaseException:
        if (out / VERDICT_FILE).is_file():
            say(f"{out} still holds an earlier verdict")
        raise


def _take_back_verdict(out: Path) -> None:
    """Remove an earlier call's verdict: its evidence is replaced from here on."""
    (out / VERDICT_FILE).unlink(missing_ok=True)
    older = out / RESULTS / OLD_EXPERIMENTS_FOLDER
    if older.is_dir():
        shutil.rmtree(older)


def _compare_rounds(request: ProofRequest, out: Path, say: Say) -> None:
    """Print whether the rounds of an earlier proof of the same commands count."""
    before = read_measurement(out)
    fixed = None if before is None or before.until else before.rounds
    if fixed != request.fixed_rounds:
        say(
            f"{out} holds a proof with another number of rounds; this one replaces it. All rounds run again, because adding "
            "rounds after seeing a result inflates false claims"
        )
    elif before and not fixed and before.rounds < request.most_rounds:
        say(f"continuing from the rounds of an earlier call, whose limit was {before.rounds}")


def _leave_asked(asked: Asked, results: Path) -> None:
    """Write the request beside the results; a page that was made for another request is made again."""
    text = asked.model_dump_json(indent=1) + "\n"
    path = results / ASKED_FILE
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        (results / PAGE_FILE).unlink(missing_ok=True)
        results.mkdir(parents=True, exist_ok=True)
        write_text(path, text)


def _read_attempt(results: Path) -> int:
    """Return the ordinal of this proof among those of its commands, as on the page."""
    with suppress(SpeedproofError):
        if (asked := read_asked(results)) is not None:
            return asked.attempt
    return 1


def _list_missing_tools(request: ProofRequest) -> list[str]:
    """Return a line for each missing requirement: a profile, a profiler, Apptainer, the image, a GPU."""
    missing = []
    try:
        if request.profile:
            find_profile(request.profile)
    except SpeedproofError as error:
        missing.append(str(error))
    try:
        if request.profiled and request.profiler == "nsys" and request.profile is None:
            read_capabilities()
    except ProfilingError as error:
        missing.append(f"profiled: {error}; or leave it out, or add --profiler kineto if the programs use torch")
    try:
        if request.container:
            identify_image(Path(request.container))
            find_apptainer()
    except SpeedproofError as error:
        missing.append(str(error))
    if request.profile is None and (need := name_gpu_need(request)) and describe_gpu() is None:
        missing.append(f"{need}: no GPU here (`nvidia-smi` lists none); leave it out, or run on a machine with a GPU")
    elif request.profile is None and request.device != "cpu" and 0 < (found := len(list_gpu_uuids())) < request.gpus:
        missing.append(f"--gpus {request.gpus}: {format_count(found, 'GPU')} here; ask for no more, or run on another machine")
    return missing


def _explain(request: ProofRequest, evidence: Evidence) -> str:
    """Return what the traces show about the difference."""
    if not request.profiled:
        return "no trace was taken; add --profiled 1 to see where the time goes (needs Nsight Systems)"
    return join_words(compose_first_screen(evidence).why)


def _warm_up_once(
    executor: LocalExecutor | ProfileExecutor,
    measured: ProofSetup,
    request: ProofRequest,
    out: Path,
    decides: list[Any],
    say: Say,
) -> WarmUp:
    """Return the warm-up's findings, those of an earlier call if commands, files and their reading are the same."""
    asked = request.model_dump(mode="json", exclude=_UNWARMED)
    digest = digest_of([asked, request.profiled > 0, *decides, digest_files(out / PROGRAMS, [DIGESTS])])
    kept = out / WARM_UP_FILE
    try:
        values = json.loads(kept.read_text(encoding="utf-8"))
        if values.pop("digest") == digest:
            return WarmUp.model_validate(values)
    except (OSError, ValueError, KeyError, AttributeError):
        pass
    begun_s = time.monotonic()
    beside = "" if request.budget is None else f", beside the budget of {format_value(request.budget, 'min')}"
    say(f"warm-up: one run of each of {format_count(len(request.commands), 'command')}, not counted")
    kept.unlink(missing_ok=True)  # the caches beside it are replaced now
    found = executor.warm_up(measured)
    say(f"warm-up: took {format_duration(time.monotonic() - begun_s)} in all{beside}")
    write_text(kept, json.dumps({**found.model_dump(mode="json"), "digest": digest}, indent=1) + "\n")
    return found


def _describe_plan(request: ProofRequest, names: list[str], found: WarmUp, out: Path, order_seed: int, say: Say) -> None:
    counted = find_counted(found.reading)
    metric = choose_metric(request, found.epochs, bool(found.reading.rate))
    if METRICS[metric].printed == "epoch" and (condition := question_batch_sizes(request.commands, counted)):
        say(condition)
    for name, title in title_variants(request).items():
        epochs = (
            f", {count_readings(found.epochs[name], found.reading)} ({_describe_clock(found, name)})"
            if found.epochs[name]
            else ""
        )
        note = f"; {found.notes[name]}" if name in found.notes else ""
        say(f"{title}: {format_value(found.process_s[name], 's')}{epochs}{note}")
    if found.unwatched:
        say(f"too large to check fully for files that runs leave: {_shorten(found.unwatched)}")
    runs = request.most_rounds * (len(names) + request.control)
    traced = f"; then {format_count(request.profiled, 'run')} of each under {request.profiler}" if request.profiled else ""
    total_s = request.most_rounds * count_round_s({name: found.process_s[name] for name in names}, request.control)
    most = "" if request.budget is None else "at most "
    if request.budget is not None and total_s > 60 * request.budget:
        cost = f"until the variants are decided, within the budget of {format_value(request.budget, 'min')}"
    else:
        cost = f"{most or 'about '}{format_duration(total_s)} of runs{', less once the variants are decided' if most else ''}"
    copies_s = runs * found.copy_s
    if copies_s > max(1.0, total_s / 10):
        cost += f", and about {format_duration(copies_s)} to copy the folder (--workdir here avoids this)"
    by = name_measure(metric, counted, name_rate(found.reading) or "")
    units = _describe_units(found.units, request)
    trusted = f"reported times are trusted ({request.trust_reported}); " if request.trust_reported else ""
    say(
        f"plan: {trusted}{most}{runs} timed runs in {request.most_rounds} rounds, in random order (seed "
        f"{order_seed}), {cost}; "
        f"{_START[request.workdir]}; {'blind: timed runs do not see speedproof; ' if request.blind else ''}"
        f"compared by {by}, read from: {SOURCES[found.reading.source].title}{units}{traced}; results in {out}"
    )
    if found.recognized:
        say(f"epochs: {found.recognized}; --epoch-s reads others, --metric process_s compares whole processes")
    for line in [*_describe_stop(request, found, names), *_describe_places(request)]:
        say(line)
    kept = max((one.kept_caches for one in found.observed.values()), default=0)
    if caches := describe_warm_caches(request.commands, request.caches, kept):
        say(caches)


def _describe_stop(request: ProofRequest, found: WarmUp, names: list[str]) -> list[str]:
    """Return after which epochs runs are ended, if they are, and what to do if the budget is too short."""
    process_s = {name: found.process_s[name] for name in names}  # of the reference first
    short = question_budget(process_s, request.budget, request.control)
    if found.stop_after:
        return [*([short] if short else []), describe_stop_after(found.stop_after, find_counted(found.reading))]
    proposed = propose_stop(process_s, found.epochs, request.budget, request.control) or short
    return [proposed] if proposed else []


def _describe_places(request: ProofRequest) -> list[str]:
    """Return how runs use caches and folders, if not by default."""
    lines = [_CACHES[request.caches]] if request.caches != "warm" else []
    if request.isolate:
        lines.append("isolated: what a run writes to HOME, /tmp and Python's packages is discarded when it ends")
    return lines


_UNSEEN: dict[Unseen, str] = {
    "together": "observed times not available: its reports arrive together",
    "file": "observed times not available: our clock did not see its file grow row by row",
    "replaced": "observed times not available: it writes a marks file of its own",
    "none": "too few for our clock to check",
    "silent": "observed times not available: no report of their ends reached our clock",
}


def _describe_clock(found: WarmUp, name: str) -> str:
    """Return whether our own clock sees a variant's epochs; if not, why, and what they are checked against instead."""
    unseen = name_unseen(found.arrivals[name], found.epochs[name])
    seen = f"observed {SOURCES[found.reading.source].seen}"
    return f"{_UNSEEN[unseen]}; checked against the whole process" if unseen else seen


def _describe_units(units: Mapping[str, Sequence[str]], request: ProofRequest) -> str:
    """Return the units in which printed times are read; one for all variants if they agree."""
    read = "read as differences of" if request.cumulative else "read as"
    titles = {name: " and ".join(UNIT_TITLES[unit] for unit in own) for name, own in units.items() if own}
    if len(set(titles.values())) > 1:
        called = call_variants(request)
        return f", epochs {read} {', '.join(f'{title} ({called[name]})' for name, title in titles.items())}"
    return f", epochs {read} {next(iter(titles.values()))}" if titles else ""


def _shorten(names: list[str]) -> str:
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
