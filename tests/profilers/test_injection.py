"""The library in programs of C, of several modules, threads and processes: each event is found, or its drop counted."""

import numpy as np
import pytest

from speedproof.profilers.nvtx_library import MARK, PUSHED, STARTED
from tests.profilers.programs import compile_program, names_of, needs_compiler, needs_headers, run_injected

pytestmark = [needs_compiler, needs_headers]


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    return compile_program(tmp_path_factory.mktemp("built"), "ranges")


def test_each_kind_of_event_is_found_with_name_domain_and_level(program, tmp_path):
    (left,), said = run_injected(tmp_path / "left", [program, "each"])
    assert said == "0 2 1 0 0 -1"  # the levels that push and pop return; below 0: there was none
    found = {(name, int(kind)) for name, kind in zip(names_of(left), left.records["kind"], strict=True)}
    marks, pushed = {"mark a", "mark w", "ex", "registered"}, {"push a", "push w", "wide é€😀", "ex"}
    assert {name for name, kind in found if kind == MARK} == marks
    assert {name for name, kind in found if kind == PUSHED} == pushed
    assert {name for name, kind in found if kind == STARTED} == {"start a", "start w", "ex", "registered"}
    assert left.domains == {0: "", 1: "of mine"}
    assert [int(one["domain"]) for one in left.records] == [0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1]
    assert [int(one["level"]) for one in left.records if one["kind"] == PUSHED] == [0, 1, 2, 0]
    assert (left.records["end_ns"] >= left.records["begin_ns"]).all()
    ids = left.records["id"][left.records["kind"] == STARTED]
    assert len(set(ids)) == 4
    assert left.unmatched == 3  # a pop too many, an end twice, an end of nothing
    assert (left.dropped, left.others, left.unfinished, left.modules) == (0, 0, 0, 1)


def test_only_wanted_names_are_kept_and_others_are_counted(program, tmp_path):
    (left,), _ = run_injected(tmp_path / "left", [program, "each"], names=("push *", "reg*red"))
    assert names_of(left) == ["registered", "push a", "push w", "registered"]
    assert left.others == 8


def test_threads_have_stacks_of_their_own_and_a_range_may_end_in_another(program, tmp_path):
    (left,), _ = run_injected(tmp_path / "left", [program, "threads"])
    records = left.records
    for number in range(4):
        mine = records[records["name"] == f"thread {number}".encode()]
        (thread,) = set(mine["thread"])
        inner = records[(records["name"] == b"inner") & (records["thread"] == thread)]
        assert len(mine) == len(inner) == 1000
        assert (mine["begin_ns"] <= inner["begin_ns"]).all() and (inner["end_ns"] <= mine["end_ns"]).all()
        assert (mine["end_ns"][:-1] <= mine["begin_ns"][1:]).all()
    (crossing,) = records[records["name"] == b"crossing"]
    assert crossing["thread"] != crossing["end_thread"] and crossing["end_ns"] > crossing["begin_ns"]
    assert len(records) == 8001


def test_a_forked_process_has_a_file_of_its_own_and_never_writes_to_its_parents(program, tmp_path):
    (parent, *children), _ = run_injected(tmp_path / "left", [program, "fork"])
    assert names_of(parent) == ["parent's", "also the parent's"]
    assert [names_of(child) for child in children] == [["child's"]] * 3
    assert len({child.process for child in children} | {parent.process}) == 4
    last = max(int(child.records["end_ns"][0]) for child in children)
    assert (parent.records["end_ns"] > last).all()  # no child ended them
    assert [one.unmatched for one in (parent, *children)] == [0, 0, 0, 0]


def test_what_a_killed_process_wrote_is_there(program, tmp_path):
    (left,), _ = run_injected(tmp_path / "left", [program, "killed"], status=-9)
    assert names_of(left) == ["whole", "open"]
    assert list(left.records["end_ns"] > 0) == [True, False]


def test_a_million_ranges_are_each_found(program, tmp_path):
    (left,), _ = run_injected(tmp_path / "left", [program, "many", 1_000_000])
    assert (len(left.records), left.dropped) == (1_000_000, 0)
    assert (left.records["end_ns"] >= left.records["begin_ns"]).all()
    assert (np.diff(left.records["begin_ns"].astype(np.int64)) >= 0).all()


def test_what_is_above_the_limit_is_dropped_and_counted(program, tmp_path):
    (left,), _ = run_injected(tmp_path / "left", [program, "many", 20_000], most=9_000)
    assert (len(left.records), left.dropped, left.unmatched) == (9_000, 11_000, 0)


def test_each_module_with_an_nvtx_of_its_own_is_heard(program, tmp_path):
    modules = [compile_program(tmp_path, f"module{number}.so", "-shared", "-fPIC", "-DMODULE") for number in range(2)]
    (left,), _ = run_injected(tmp_path / "left", [program, "modules", *modules])
    assert names_of(left) == ["of the program", "of the module", "of the module"]
    assert left.modules == 3
    assert (left.records["end_ns"] > 0).all() and len(set(left.records["id"])) == 3
