import copy
import pickle
import threading
import time
from collections import Counter

import pytest
import torch
from monai.data import CacheDataset, DataLoader, ThreadDataLoader
from monai.transforms import Compose, RandFlipd, RandomizableTrait, ScaleIntensityd

from speedproof.profilers import ranges
from speedproof.profilers.ranges import RANGE_COLOURS, Ranges, Recorder, mark_transform, record_transforms


@pytest.fixture(autouse=True)
def fresh_numbers(monkeypatch):
    monkeypatch.setattr(ranges, "_uses", Counter())


def names_of(recorder):
    return Counter(ended.name for ended in recorder.read_ranges())


def test_phases_and_colours_are_the_documented_ones():
    documented = {
        "epoch": "red", "dataload": "red", "forward": "green", "backward": "blue", "update": "yellow",
        "sliding window": "green", "decollate batch": "blue", "compute metric": "yellow",
    }  # fmt: skip
    assert documented.items() <= RANGE_COLOURS.items()
    assert RANGE_COLOURS.keys() - documented.keys() == {"validation dataload"}


@pytest.mark.parametrize("style", ["push_pop", "start_end"])
def test_a_phase_is_recorded_with_its_style_thread_and_times(style):
    recorder = Recorder()
    marks = Ranges(style, recorder)
    before_ns = time.perf_counter_ns()
    with marks.phase("epoch"), marks.phase("forward"):
        time.sleep(0.002)
    after_ns = time.perf_counter_ns()
    inner, outer = recorder.read_ranges()
    assert (inner.name, outer.name) == ("forward", "epoch")
    assert before_ns <= outer.start_ns <= inner.start_ns < inner.end_ns <= outer.end_ns <= after_ns
    assert inner.end_ns - inner.start_ns >= 2_000_000
    assert {inner.kind, outer.kind} == {style}
    assert {inner.thread, outer.thread} == {threading.get_native_id()}


def test_a_phase_that_raises_is_closed_and_the_error_goes_on():
    recorder = Recorder()
    with pytest.raises(ZeroDivisionError), Ranges("push_pop", recorder).phase("forward"):
        raise ZeroDivisionError
    assert names_of(recorder) == {"forward": 1}


def test_an_unknown_phase_needs_a_colour():
    with pytest.raises(KeyError, match="lunch"):
        Ranges().phase("lunch")
    with Ranges().phase("lunch", "green"):
        pass


def test_threads_add_to_one_recorder():
    recorder = Recorder()
    marks = Ranges("push_pop", recorder)

    def work():
        for _ in range(200):
            with marks.phase("update"):
                pass

    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert names_of(recorder) == {"update": 800}
    assert len({ended.thread for ended in recorder.read_ranges()}) == 4


def test_a_transform_is_named_as_monai_names_it():
    recorder = Recorder()
    marked = [mark_transform(ScaleIntensityd("image")) for _ in range(3)] + [mark_transform(ScaleIntensityd("image"), "Mine")]
    with record_transforms(recorder):
        for transform in marked:
            transform({"image": torch.arange(4.0)[None]})
    assert [ended.name for ended in recorder.read_ranges()] == [
        "ScaleIntensityd",
        "ScaleIntensityd_2",
        "ScaleIntensityd_3",
        "Mine",
    ]


def test_a_marked_transform_is_still_of_its_class_and_gives_the_same():
    plain, marked = ScaleIntensityd("image"), mark_transform(ScaleIntensityd("image"))
    data = {"image": torch.arange(4.0)[None]}
    assert isinstance(marked, ScaleIntensityd)
    assert type(marked).__name__ == "ScaleIntensityd"
    assert torch.equal(plain(data)["image"], marked(data)["image"])
    assert isinstance(mark_transform(RandFlipd("image")), RandomizableTrait)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda it: pickle.loads(pickle.dumps(it))])
def test_a_marked_transform_can_be_copied_and_sent_to_a_worker(duplicate):
    original = mark_transform(RandFlipd("image", prob=0.25), "Flip")
    twin = duplicate(original)
    twin.extra = 1
    recorder = Recorder()
    with record_transforms(recorder):
        twin({"image": torch.zeros(1, 4)})
    assert names_of(recorder) == {"Flip": 1}
    assert twin.prob == 0.25
    assert not hasattr(original, "extra")


def make_dataset():
    chain = Compose([mark_transform(ScaleIntensityd("image")), mark_transform(RandFlipd("image", prob=0.5))])
    volumes = [{"image": torch.arange(4.0)[None]} for _ in range(4)]
    return CacheDataset(volumes, Compose([chain]).flatten(), num_workers=2, progress=False)


def test_a_cache_runs_deterministic_transforms_once_and_random_ones_each_time():
    recorder = Recorder()
    with record_transforms(recorder):
        loader = ThreadDataLoader(make_dataset(), batch_size=2, num_workers=0)
        for _ in range(3):
            list(loader)
    assert names_of(recorder) == {"ScaleIntensityd": 4, "RandFlipd": 12}


def test_worker_processes_record_too():
    recorder = Recorder()
    with record_transforms(recorder):
        list(DataLoader(make_dataset(), batch_size=1, num_workers=2, multiprocessing_context="fork"))
    assert names_of(recorder) == {"ScaleIntensityd": 4, "RandFlipd": 4}
    assert len({ended.process for ended in recorder.read_ranges() if ended.name == "RandFlipd"}) == 2


def test_nothing_is_recorded_outside_a_recording():
    recorder = Recorder()
    transform = mark_transform(ScaleIntensityd("image"))
    with record_transforms(recorder):
        pass
    transform({"image": torch.arange(4.0)[None]})
    assert recorder.read_ranges() == []
