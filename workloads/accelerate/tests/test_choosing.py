"""A network keeps the parts that make it faster, and is otherwise what it was; times are measured once for all processes."""

import json

import pytest
import torch
from monai.networks.nets import DynUNet, SegResNet, UNet
from torch import nn

from speedproof_accelerate import Entry, accelerate, decisions, measuring, parts, replacing
from speedproof_accelerate.decisions import Decisions
from workloads.spleen.tests.training.kernel_checks import DEVICE

gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU: only there are times compared")


class Clock:
    """Times that a test sets: of parts by their calls, and of the network by how many of its modules are ours.

    Attributes:
        parts: what was measured of parts.
        arrangements: of the network's turns: how many modules of ours it had, and whether its weights were channels last.
    """

    def __init__(self, network, part_ms, network_ms):
        self.network, self.part_ms, self.network_ms = network, part_ms, network_ms
        self.parts, self.arrangements, self._run = [], [], set()

    def measure(self, part, call, *_):
        self.parts.append((type(part).__name__, tuple(call.shape)))
        return measuring.Times(self.part_ms(part, call), 1.0)

    def take_turn(self, call, _):
        ours = [one for one in self.network.named_modules() if type(one[1]).__module__.startswith("speedproof_accelerate.")]
        weights = [one for one in self.network.parameters() if one.dim() == 5]
        order = all(one.is_contiguous(memory_format=torch.channels_last_3d) for one in weights)
        arrangement = tuple(name for name, _ in ours), order
        if arrangement not in self._run:  # later turns compute the same, and interpreted, each takes long
            self._run.add(arrangement)
            call()
        self.arrangements.append((len(ours), order))
        return self.network_ms(*self.arrangements[-1])


@pytest.fixture
def clock(interpreted, monkeypatch, tmp_path):
    """Compare as on a GPU, by a clock of the test, with a cache folder of its own."""
    monkeypatch.setattr(replacing, "find_missing_gpu", lambda _: None)
    monkeypatch.setattr(decisions, "_find_folder", lambda: tmp_path)

    def use(network, part_ms=lambda *_: 0.5, network_ms=lambda *_: 1.0):
        one = Clock(network, part_ms, network_ms)
        monkeypatch.setattr(measuring, "_measure", one.measure)
        monkeypatch.setattr(measuring, "_take_turn", one.take_turn)
        return one

    return use


def unet():
    return UNet(3, 1, 2, (2, 4, 8), (2, 2), norm="batch").to(DEVICE)


def small():
    return nn.Sequential(nn.Conv3d(2, 2, 3, padding=1), nn.BatchNorm3d(2), nn.ReLU()).to(DEVICE)


def draw(*shape):
    return torch.randn(shape, device=DEVICE)


def test_what_is_not_faster_at_the_shapes_of_an_example_is_torchs_own(clock):
    """Kernels take half of torch's time for volumes of more than 100 voxels, else twice: measured once for equal calls."""
    network = unet()
    asked = clock(network, lambda _, call: 0.5 if call.shape[2:].numel() > 100 else 2.0, lambda count, _: 1.0 if count else 2.0)
    states = {name: buffer.clone() for name, buffer in network.named_buffers()}
    report = accelerate(network, draw(1, 1, 16, 16, 8), precision=None)
    assert len(asked.parts) == len(set(asked.parts))
    assert [entry.name for entry in report.replaced if "Norm" in entry.module] == ["model.0.adn.N", "model.1.submodule.2.adn.N"]
    assert all(torch.equal(states[name], buffer) for name, buffer in network.named_buffers())
    slower = "torch's own is not slower than with its activation"
    assert Entry("model.1.submodule.0.adn.N", "BatchNorm3d", slower) in report.kept
    assert type(network.get_submodule("model.1.submodule.0.adn.N")) is nn.BatchNorm3d
    assert type(network.get_submodule("model.1.submodule.0.adn.A")) is nn.PReLU


@pytest.mark.parametrize("last", [True, False], ids=["channels last", "contiguous"])
def test_a_network_that_is_slower_with_its_parts_is_what_it_was(clock, last):
    """Not one module of ours remains, and weights lie as it is faster."""
    network = unet()
    before = {name: type(one) for name, one in network.named_modules()}
    parameters = dict(network.named_parameters())
    asked = clock(network, network_ms=lambda count, order: 3.0 if count else 1.0 + (order != last))
    report = accelerate(network, draw(1, 1, 8, 8, 8), precision=None)
    assert {name: type(one) for name, one in network.named_modules()} == before
    assert all(parameters[name] is one for name, one in network.named_parameters())
    assert parameters["model.1.submodule.0.conv.weight"].is_contiguous(memory_format=torch.channels_last_3d) is last
    assert parameters["model.1.submodule.0.conv.weight"].is_contiguous() is not last
    assert report.replaced == []
    order = "channels last" if last else "as it was"
    said = f"the network takes 3.00 ms with its parts, and 1.00 ms without, {order}"
    assert Entry("model.0.adn.N", "BatchNorm3d", said) in report.kept
    assert Entry("model.1", "SkipConnection", said) in report.kept
    assert len({count for count, _ in asked.arrangements}) > 2  # also a few parts, and only the blocks


def test_a_slow_network_is_not_measured_in_both_layouts(clock):
    """Channels last, it takes more than twice as long as with its parts: contiguous, it would not be the fastest either."""
    network = unet()
    asked = clock(network, network_ms=lambda count, _: 1.0 if count else 3.0)
    report = accelerate(network, draw(1, 1, 8, 8, 8), precision=None)
    assert report.arrangements["as it was"] == float("inf")
    assert (0, False) not in asked.arrangements
    assert report.whole == measuring.Times(1.0, 3.0)


def test_what_is_hardly_faster_is_not_taken(clock):
    network = small()
    clock(network, network_ms=lambda count, _: 0.99 if count else 1.0)
    assert accelerate(network, draw(1, 2, 2, 2, 2), precision=None).replaced == []
    assert [type(one) for one in network] == [nn.Conv3d, nn.BatchNorm3d, nn.ReLU]


def test_a_few_parts_stay_if_the_network_is_fastest_with_them(clock):
    """Two norms save 100 ms, others hardly anything; each part costs the network 1 ms of launches."""
    network = unet()

    def time_part(part, call):
        return -99.0 if call.shape[1:] == (2, 8, 8, 8) and isinstance(part, parts.NormActivation) else 0.9

    clock(network, time_part, lambda count, _: count if count > 4 else 100.0)
    report = accelerate(network, draw(1, 1, 16, 16, 16), precision=None)
    found = [entry.name for entry in report.replaced if entry.module != "SkipConnection"]
    assert found == ["model.0.adn.N", "model.1.submodule.2.adn.N"]


def test_what_runs_out_of_memory_is_not_taken(clock, monkeypatch):
    network = small()
    take_turn = measuring._take_turn
    asked = clock(network)
    monkeypatch.setattr(measuring, "_take_turn", take_turn)

    def time_calls(call, _):
        call()
        if not any(isinstance(one, parts.Part) for one in network.modules()):
            raise torch.OutOfMemoryError
        return 1.0

    monkeypatch.setattr(measuring, "_time_calls", time_calls)
    assert accelerate(network, draw(1, 2, 2, 2, 2), precision=None).replaced
    assert asked.parts


def test_norms_that_share_an_activation_stay_together(clock, full_products):
    """In a DynUNet's block, one activation follows both norms: as parts they compute it, so both are parts, or none is."""
    network = DynUNet(3, 1, 2, (3, 3, 3), (1, 2, 2), (2, 2), filters=(2, 2, 4)).to(DEVICE)
    images = draw(1, 1, 8, 8, 8)
    with torch.no_grad():
        expected = network(images)
    seen: list[int] = []

    def time_part(*_):
        seen.append(1)
        return 0.5 if len(seen) % 2 else 2.0

    clock(network, time_part, lambda count, _: 1.0 if count else 2.0)
    accelerate(network, images, precision=None)
    with torch.no_grad():
        torch.testing.assert_close(network(images), expected, rtol=1e-3, atol=1e-3)


def test_every_choice_computes_the_network(clock, full_products):
    """However parts are chosen, results and names of states are those of the plain network."""
    network = SegResNet(3, 8, 1, 2, blocks_down=(1, 1), blocks_up=(1,)).to(DEVICE)
    images = draw(1, 1, 4, 6, 4)
    names = list(network.state_dict())
    with torch.no_grad():
        expected = network(images)
    seen = {}

    def time_network(*arrangement):
        if arrangement not in seen:
            with torch.no_grad():
                seen[arrangement] = float((network(images) - expected).abs().max())
        return 1.0

    clock(network, network_ms=time_network)
    accelerate(network, images, precision=None)
    assert len(seen) >= 3
    assert max(seen.values()) < 1e-3
    assert list(network.state_dict()) == names


def test_times_are_remembered(clock):
    """A second process measures nothing, chooses the same, and says so; another batch is measured."""
    reports = []
    for shape in ((1, 2, 2, 2, 2), (1, 2, 2, 2, 2), (1, 2, 4, 2, 2)):
        network = small()
        asked = clock(network, network_ms=lambda count, _: 1.0 if count else 2.0)
        reports.append((accelerate(network, draw(*shape), precision=None), bool(asked.parts), bool(asked.arrangements)))
    (first, *of_first), (second, *of_second), (_, *of_third) = reports
    assert (of_first, of_second, of_third) == ([True, True], [False, False], [True, True])
    assert second.replaced == first.replaced
    assert second.times == first.times
    assert second.arrangements == first.arrangements
    assert (first.remembered, second.remembered) == (0, len(set(second.times.values())) + len(second.arrangements))
    assert f"{second.remembered} times were measured by an earlier call." in str(second)


def test_times_are_not_remembered_if_not_wanted(clock, tmp_path):
    for _ in range(2):
        network = small()
        asked = clock(network)
        report = accelerate(network, draw(1, 2, 2, 2, 2), precision=None, remember=False)
        assert (report.remembered, bool(asked.parts)) == (0, True)
    assert list(tmp_path.iterdir()) == []


def test_settings_of_torch_are_part_of_what_is_remembered(clock, monkeypatch):
    for benchmark in (False, True):
        monkeypatch.setattr(torch.backends.cudnn, "benchmark", benchmark)
        network = small()
        asked = clock(network)
        accelerate(network, draw(1, 2, 2, 2, 2), precision=None)
        assert asked.parts


@pytest.mark.parametrize("change", [nn.Module.eval, lambda network: network.bfloat16()], ids=["evaluation", "precision"])
def test_what_is_not_printed_of_a_network_is_part_of_what_is_remembered(clock, change):
    """For a norm in evaluation there is no kernel: that says nothing of training."""
    for make in (lambda: change(small()), small):
        network = make()
        asked = clock(network)
        accelerate(network, draw(1, 2, 2, 2, 2), precision=torch.bfloat16)
        assert {name for name, _ in asked.parts} == {"NormActivation", "FewChannelConvolution"}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"a": "b"}', '{"a": [NaN, -1]}', pytest.param("[" * 100000, id="deep")])
def test_a_broken_file_is_ignored_and_replaced(tmp_path, text):
    file = tmp_path / "folder" / "times.json"
    file.parent.mkdir()
    file.write_text(text)
    found = Decisions(file)
    assert found.find(["a"], 2) is None
    found.note(["a"], [1.0, 2.0])
    found.write()
    assert Decisions(file).find(["a"], 2) == [1.0, 2.0]
    assert [one.name for one in file.parent.iterdir()] == ["times.json"]


def test_numbers_that_are_no_times_are_ignored(tmp_path):
    """Python reads whole numbers of any size, with which floats cannot be compared."""
    file = tmp_path / "times.json"
    found = Decisions(file)
    found.note(["a"], [1.0])
    found.write()
    (key,) = json.loads(file.read_text())
    for text in (f"1{'0' * 400}", "true", "NaN", "-1.0"):
        file.write_text(f'{{"{key}": [{text}]}}')
        assert Decisions(file).find(["a"], 1) is None


def test_a_full_disk_is_left_as_it_was(tmp_path, monkeypatch):
    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    found = Decisions(tmp_path / "times.json")
    found.note(["a"], [1.0])
    monkeypatch.setattr(decisions.Path, "write_text", fail)
    found.write()
    assert list(tmp_path.iterdir()) == []


def test_processes_do_not_lose_each_others_times(tmp_path):
    file = tmp_path / "times.json"
    one, other = Decisions(file), Decisions(file)
    for found, name in ((one, "a"), (other, "b")):
        found.note([name], [1.0])
        found.write()
    assert len(json.loads(file.read_text())) == 2


def test_a_folder_that_cannot_be_written_is_ignored(tmp_path):
    (tmp_path / "folder").write_text("")
    found = Decisions(tmp_path / "folder" / "times.json")
    found.note(["a"], [1.0])
    found.write()


def test_times_are_in_tritons_cache_folder(interpreted, monkeypatch, tmp_path):
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    assert decisions._find_folder() == tmp_path / "speedproof_accelerate"


@gpu
@pytest.mark.parametrize("graphs", [False, True])
def test_a_second_call_on_a_gpu_measures_nothing(tmp_path, monkeypatch, graphs):
    monkeypatch.setattr(decisions, "_find_folder", lambda: tmp_path)
    reports = [accelerate(unet(), draw(2, 1, 32, 32, 32), graphs=graphs) for _ in range(2)]
    assert reports[0].remembered == 0
    assert reports[1].remembered > 0
    assert reports[1].replaced == reports[0].replaced
    assert reports[1].times == reports[0].times


def test_kernels_that_are_measured_are_compiled_before_with_those_of_the_network(clock, monkeypatch):
    network = unet()
    asked, launched, launch = clock(network), [], measuring._launch

    def note(part, call, precision):
        launched.append((type(part).__name__, tuple(call.shape)))
        assert asked.parts == []
        launch(part, call, precision)

    monkeypatch.setattr(measuring, "_launch", note)
    accelerate(network, draw(1, 1, 8, 8, 8), precision=None)
    assert sorted(launched) == sorted(asked.parts) != []


@pytest.mark.parametrize("graphs", [False, True], ids=["launches", "graphs"])
@pytest.mark.parametrize(("ms", "in_a_round"), [(0.1, 5), (1.0, 5), (2.0, 2), (22.0, 1)])
def test_slow_calls_are_repeated_less(monkeypatch, graphs, ms, in_a_round):
    """Each takes as long as the test says; a graph as long as its calls."""
    made, rounds = [], []

    def record(call, calls):
        return lambda: [call() for _ in range(calls)]

    def time_calls(call, calls):
        before = len(made)
        for _ in range(calls):
            call()
        rounds.append(calls)
        return ms * (len(made) - before) / calls

    monkeypatch.setattr(measuring, "_record", record)
    monkeypatch.setattr(measuring, "_time_calls", time_calls)
    assert measuring._time_ms(lambda: made.append(None), graphs) == pytest.approx(ms)
    assert rounds == [1, *[in_a_round] * 3]
    assert len(made) == (3 + 1 + in_a_round * (1 + 3 * in_a_round) if graphs else 3 + 1 + 3 * in_a_round)


def test_a_norm_without_weights_on_the_example_has_only_its_activations_gradient(clock, monkeypatch):
    measure = measuring._measure
    monkeypatch.setattr(measuring, "_time_ms", lambda call, graphs: call() or 1.0)
    network = nn.Sequential(nn.InstanceNorm3d(2), nn.PReLU(), nn.Conv3d(2, 2, 3, padding=1)).to(DEVICE)
    clock(network)
    monkeypatch.setattr(measuring, "_measure", measure)
    report = accelerate(network, draw(1, 2, 4, 4, 4), precision=None)
    assert Entry("0", "InstanceNorm3d", "torch's own is not slower than with its activation") in report.kept
