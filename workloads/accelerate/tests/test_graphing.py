"""A network whose passes are recorded as graphs is the network; what cannot be recorded is refused."""

import copy
import gc
import pickle
from contextlib import nullcontext
from functools import partial
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from speedproof_accelerate import accelerate, graphing
from speedproof_accelerate.graphing import GraphedForward, Recording, graph_training
from speedproof_accelerate.measuring import fresh_parameters
from speedproof_accelerate.recording import recording
from speedproof_accelerate.rounding import Rounded

pytestmark = pytest.mark.usefixtures("full_products")
gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU: CUDA graphs are recorded on one")


def make():
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv3d(1, 4, 3, padding=1), nn.BatchNorm3d(4), nn.ReLU(), nn.Conv3d(4, 2, 1))


@gpu
def test_a_recorded_network_is_the_network():
    plain = make().cuda()
    recorded = copy.deepcopy(plain)
    images = torch.rand(2, 1, 8, 8, 8, device="cuda")
    graph_training(recorded, images, None)
    for number in range(3):
        given = images + number
        found = []
        for network in (plain, recorded):
            out = network(given)
            found.append([out, *torch.autograd.grad(out.square().sum(), [*network.parameters()])])
        torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-4)
    assert torch.equal(recorded[1].num_batches_tracked, plain[1].num_batches_tracked)
    recorded.eval()
    assert recorded(torch.rand(1, 1, 4, 6, 8, device="cuda")).shape == (1, 2, 4, 6, 8)


@gpu
def test_a_network_recorded_in_half_precision_trains_as_the_network():
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Conv3d(8, 16, 3), nn.ReLU(), nn.Conv3d(16, 8, 1), nn.Flatten(), nn.Linear(64, 3)).cuda()
    recorded = copy.deepcopy(plain)
    recorded[2].weight.requires_grad_(False)
    plain[2].weight.requires_grad_(False)
    images = torch.rand(2, 8, 4, 4, 4, device="cuda")
    graph_training(recorded, images, torch.float16)
    for network in (plain, recorded):
        optimizer = torch.optim.SGD([one for one in network.parameters() if one.requires_grad], 0.1)
        for number in range(3):
            optimizer.zero_grad()
            with torch.autocast("cuda", torch.float16):
                out = network(images + number)
            out.square().mean().backward()
            optimizer.step()
    assert all(one.grad is None or one.grad.dtype == torch.float32 for one in recorded.parameters())
    for one, other in zip(recorded.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize("collects", [True, False])
def test_nothing_is_collected_while_a_graph_is_recorded(monkeypatch, collects):
    seen = []
    monkeypatch.setattr(torch.cuda, "graph", lambda *_, **options: nullcontext(seen.append(options)))
    before = gc.isenabled()
    try:
        gc.enable() if collects else gc.disable()
        with pytest.raises(KeyError), recording("a graph", pool="a pool"):
            seen.append(gc.isenabled())
            raise KeyError
        assert gc.isenabled() == collects
    finally:
        gc.enable() if before else gc.disable()
    assert seen == [{"capture_error_mode": "thread_local", "pool": "a pool"}, False]


class Keeping(nn.Module):
    """A network that keeps its last result, as MONAI's DynUNet keeps those of its heads."""

    def __init__(self, body):
        super().__init__()
        self.body, self.kept = body, []

    def forward(self, x):
        self.kept = [self.body(x)]
        return self.kept[0]


@gpu
@pytest.mark.parametrize("record", [graph_training, partial(accelerate, graphs=True, remember=False)])
def test_a_network_that_keeps_results_is_recorded(record):
    images = torch.rand(2, 1, 8, 8, 8, device="cuda")
    plain, recorded = Keeping(make().cuda()), Keeping(make().cuda())
    recorded(images).sum().backward()  # what it keeps of this pass stays alive
    recorded.zero_grad()
    recorded.body[1].load_state_dict(plain.body[1].state_dict())
    record(recorded, images, precision=None)
    found = []
    for network in (plain, recorded):
        out = network(images)
        found.append([out, *torch.autograd.grad(out.square().sum(), [*network.parameters()])])
    torch.testing.assert_close(found[1], found[0], rtol=1e-4, atol=1e-4)


def test_fresh_parameters_share_memory_and_go_again():
    network = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2, bias=False))
    network[1].weight = network[0].weight  # as of tied layers
    network[0].bias.requires_grad_(False)
    before = [*network.parameters()]
    with fresh_parameters(network) as fresh:
        now = [*network.parameters()]
        assert [fresh[id(one)] for one in before] == now and not set(map(id, now)) & set(map(id, before))
        assert [(one.data_ptr(), one.requires_grad) for one in now] == [(one.data_ptr(), one.requires_grad) for one in before]
        network(torch.ones(1, 2)).sum().backward()
    assert [*map(id, network.parameters())] == [*map(id, before)]
    assert before[0].grad is None and now[0].grad is not None


class Tagged(nn.Parameter):
    """A parameter of a class of its own."""


def test_fresh_parameters_keep_class_and_attributes_and_are_found_wherever_a_pass_puts_them():
    network = nn.Linear(2, 2)
    network.weight = Tagged(network.weight.detach())
    network.weight.scale = 2.0
    former, replaced = network.weight, nn.Parameter(torch.ones(2))
    with fresh_parameters(network):
        assert (type(network.weight), network.weight.scale, network.weight.is_leaf) == (Tagged, 2.0, True)
        network.again = network.weight  # as in a network that registers a parameter in its pass
        network.bias = replaced
    assert network.weight is network.again is former and network.bias is replaced


def test_copies_take_the_places_of_their_parameters():
    network = nn.Linear(2, 2)
    former, copy_of_it = network.weight, nn.Parameter(network.weight.detach().half())
    with fresh_parameters(network, {id(former): copy_of_it}) as fresh:
        assert network.weight is fresh[id(former)] is copy_of_it
    assert network.weight is former


def test_fresh_parameters_go_after_a_failure():
    network = nn.Linear(2, 2)
    former = network.weight
    with pytest.raises(KeyError), fresh_parameters(network):
        raise KeyError
    assert network.weight is former


class Referring(nn.Linear):
    """A layer that keeps its weight outside of what modules list, too."""

    def __init__(self, uses):
        super().__init__(3, 2)
        self.kept, self.named, self.uses = [self.weight], {self.weight: 2.0}, uses

    def forward(self, x):
        if self.uses == "both":
            return super().forward(x) + x @ self.kept[0].T
        if self.uses == "reference":
            return x @ self.kept[0].T + self.bias
        if self.uses == "key":
            return super().forward(x) * self.named[self.weight]
        if self.uses == "moved":  # as torch's recurrent layers, on a GPU
            self.weight.data = self.weight.data.clone()
        return super().forward(x)


@pytest.mark.parametrize("uses", ["modules", "both", "reference", "key", "moved", "moved and frozen"])
def test_a_network_that_needs_its_own_parameters_is_found(uses):
    network = Referring(uses.partition(" ")[0])
    network.weight.requires_grad_("frozen" not in uses)
    formers = list(network.parameters())
    with fresh_parameters(network) as fresh:
        found = graphing.computes_alone(network.forward, torch.rand(4, 3), formers, fresh)
        assert not graphing.computes_alone(network.forward, torch.rand(4, 3), [*formers, nn.Parameter(torch.rand(1))], fresh)
    assert found == (uses == "modules")


@gpu
@pytest.mark.parametrize("uses", ["modules", "both", "reference", "key"])
def test_a_network_that_needs_its_own_parameters_is_recorded_with_them(uses):
    network = Referring(uses).cuda()
    network.kept, network.named = [network.weight], {network.weight: 2.0}
    images = torch.rand(4, 3, device="cuda")
    expected = torch.autograd.grad(network(images).square().sum(), [*network.parameters()])
    graph_training(network, images, None)
    found = torch.autograd.grad(network(images).square().sum(), [*network.parameters()])
    torch.testing.assert_close(found, expected)


@gpu
def test_a_recorded_recurrent_network_learns():
    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = nn.LSTM(3, 4)

        def forward(self, x):
            return self.body(x)[0]

    torch.manual_seed(0)
    plain = Recurrent().cuda()
    recorded, series = copy.deepcopy(plain), torch.rand(5, 2, 3, device="cuda")
    graph_training(recorded, series, None)
    for network in (plain, recorded):
        optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
        for _ in range(4):
            optimizer.zero_grad()
            network(series).square().sum().backward()
            optimizer.step()
    torch.testing.assert_close(recorded(series), plain(series), rtol=1e-4, atol=1e-4)


def test_a_network_that_does_not_train_is_refused():
    with pytest.raises(ValueError, match=r"of a network in training; call its train\(\) first"):
        graph_training(make().eval(), torch.rand(1, 1, 4, 4, 4), None)


def test_a_network_in_evaluation_stays_as_it_is():
    network, images = make().eval(), torch.rand(1, 1, 8, 8, 8)
    before = str(network)
    with pytest.raises(ValueError, match=r"call its train\(\) first"):
        accelerate(network, images, graphs=True)
    assert str(network) == before


def test_an_example_on_a_processor_is_refused():
    with pytest.raises(ValueError, match="graphs are recorded on a GPU; the example is on cpu"):
        graph_training(make(), torch.rand(1, 1, 4, 4, 4), None)


def test_graphs_without_an_example_are_refused_and_without_a_gpu_left_out():
    with pytest.raises(ValueError, match="graphs are recorded of an example; give a batch"):
        accelerate(make(), graphs=True)
    if not torch.cuda.is_available():
        network = nn.Sequential(nn.Conv3d(1, 2, 1))  # nothing that has a kernel on a processor
        assert not accelerate(network, torch.rand(1, 1, 2, 2, 2), graphs=True, precision=None).graphed


class Pass:
    """What a test launches as a recorded pass."""

    def __init__(self, replay):
        self.replay = replay


def record_scaling(network, x):
    """Record a linear layer without a bias, as a graph would: from and to the same memory.

    Both passes share memory, so the forward pass may write where the gradient was.
    """
    weight, given = network.weight, x.detach().clone()
    out, above, below = x.new_zeros(len(x), len(weight)), x.new_zeros(len(x), len(weight)), torch.zeros_like(weight)
    forward = Pass(lambda: (below.fill_(torch.nan), out.copy_(given @ weight.detach().T)))
    backward = Pass(lambda: below.copy_(above.T @ given))
    return Recording(given, [out], lambda outs: outs[0], [above], [weight], [below], forward, backward, Rounded())


@pytest.fixture
def recorded(monkeypatch):
    """A linear layer that a test records on a processor, and the shapes that were recorded."""
    network, shapes = nn.Linear(3, 2, bias=False), []

    def record(_, x):
        shapes.append(tuple(x.shape))
        return record_scaling(network, x)

    monkeypatch.setattr(GraphedForward, "_record", record)
    network.forward = GraphedForward(network, network.forward, torch.device("cpu"), None, 2)
    return network, shapes


def test_each_shape_is_recorded_once_up_to_the_limit(recorded):
    network, shapes = recorded
    for items in (4, 2, 4, 3, 2, 3):
        x = torch.rand(items, 3)
        out = network(x)
        torch.testing.assert_close(out, x @ network.weight.T)
        (gradient,) = torch.autograd.grad(out.sum(), [network.weight])
        torch.testing.assert_close(gradient, x.sum(0).expand(2, 3))
    assert shapes == [(4, 3), (2, 3)]


@pytest.mark.parametrize("why", ["evaluation", "no gradients", "gradient of the batch", "autocast", "named"])
def test_all_else_is_computed_operation_by_operation(recorded, why):
    network, shapes = recorded
    x = torch.rand(4, 3, requires_grad=why == "gradient of the batch")
    network.train(why != "evaluation")
    with torch.autocast("cpu", enabled=why == "autocast"), torch.set_grad_enabled(why != "no gradients"):
        out = network(input=x) if why == "named" else network(x)
    assert out.shape == (4, 2)
    assert shapes == []


def test_gradients_of_several_batches_add_up(recorded):
    """Autograd keeps the first gradient where the recorded pass wrote it, and where the next passes write."""
    network, _ = recorded
    batches = [torch.rand(4, 3) for _ in range(3)]
    for x in batches:
        network(x).sum().backward()
    torch.testing.assert_close(network.weight.grad, sum(batches).sum(0).expand(2, 3))


def test_a_backward_pass_after_the_next_batch_is_refused(recorded):
    network, _ = recorded
    first, _ = network(torch.rand(4, 3)), network(torch.rand(2, 3))
    with pytest.raises(RuntimeError, match="call backward once for each batch, before the next batch"):
        first.sum().backward()


def test_a_second_backward_pass_of_a_batch_is_refused(recorded):
    network, _ = recorded
    loss = network(torch.rand(4, 3)).sum()
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="call backward once for each batch, before the next batch"):
        loss.backward()


def test_batches_without_a_backward_pass_disturb_nothing(recorded):
    network, _ = recorded
    network(torch.rand(4, 3))
    network(torch.rand(4, 3)).sum().backward()


def test_moved_weights_are_recorded_anew(recorded):
    network, shapes = recorded
    x = torch.rand(4, 3)
    network(x)
    network.weight = nn.Parameter(torch.rand(2, 3))
    torch.testing.assert_close(network(x), x @ network.weight.T)
    network.weight.data = torch.rand(2, 3)
    torch.testing.assert_close(network(x), x @ network.weight.T)
    assert shapes == [(4, 3)] * 3


def test_another_parameter_in_the_same_memory_is_recorded_anew(recorded):
    network, shapes = recorded
    x = torch.rand(4, 3)
    network(x)
    network.load_state_dict(network.state_dict(), assign=True)
    network(x).sum().backward()
    torch.testing.assert_close(network.weight.grad, x.sum(0).expand(2, 3))
    assert shapes == [(4, 3)] * 2


def test_what_is_frozen_or_trained_is_recorded_anew(recorded):
    network, shapes = recorded
    x = torch.rand(4, 3)
    for trained in (False, True, True):
        network.weight.requires_grad_(trained)
        assert network(x).requires_grad == trained
    assert shapes == [(4, 3)] * 2


def test_a_module_that_changes_its_mode_is_recorded_anew(recorded):
    network, shapes = recorded
    network.norm = nn.BatchNorm1d(2)
    graphed = GraphedForward(network, network.forward.eager, torch.device("cpu"), None, 2)
    for mode in (True, False, False, True):
        network.norm.train(mode)
        graphed.record(torch.rand(4, 3))
    assert shapes == [(4, 3)] * 3


def test_a_recorded_network_can_be_accelerated_again(recorded):
    network, shapes = recorded
    accelerate(network)
    assert "forward" not in vars(network)
    assert network(torch.rand(4, 3)).shape == (4, 2)
    assert shapes == []


def test_a_shape_that_cannot_be_recorded_is_computed_all_the_same(recorded, monkeypatch):
    network, _ = recorded

    def fail(*_):
        raise torch.OutOfMemoryError("full")

    monkeypatch.setattr(GraphedForward, "_record", fail)
    with pytest.warns(UserWarning, match=r"shape \(4, 3\) are not recorded as a graph: full"):
        assert network(torch.rand(4, 3)).shape == (4, 2)
    assert network(torch.rand(4, 3)).shape == (4, 2)


def test_a_copy_is_computed_with_its_own_weights(recorded):
    network, shapes = recorded
    copied = copy.deepcopy(network)
    with torch.no_grad():
        copied.weight.zero_()
    assert not copied(torch.rand(4, 3)).any()
    assert shapes == []
    assert list(network.state_dict()) == ["weight"]


def step(network, images):
    with torch.autocast("cuda", torch.float16):
        out = network(images)
    return [out, *torch.autograd.grad(out.float().square().sum(), [*network.parameters()])]


def test_a_saved_network_is_loaded_without_its_recordings(recorded):
    network, shapes = recorded
    x = torch.rand(4, 3)
    expected = network(x)
    loaded = pickle.loads(pickle.dumps(network))
    assert torch.equal(loaded(x), expected)
    assert not isinstance(vars(loaded)["forward"], GraphedForward)
    assert shapes == [(4, 3)]


@gpu
def test_batches_of_changing_shapes_are_computed_as_by_the_network():
    """More shapes than are recorded, in changing order; running statistics count each batch once."""
    plain = make().cuda()
    recorded = copy.deepcopy(plain)
    shapes = [(items, 1, 8, 8, side) for items, side in ((2, 8), (1, 8), (2, 4), (3, 8), (4, 8))]
    graph_training(recorded, torch.rand(shapes[0], device="cuda"), torch.float16, shapes=3)
    torch.manual_seed(0)
    for number in (0, 1, 0, 2, 3, 1, 4, 2, 0):
        images = torch.rand(shapes[number], device="cuda")
        torch.testing.assert_close(step(recorded, images), step(plain, images), rtol=1e-2, atol=1e-2)
    assert torch.equal(recorded[1].num_batches_tracked, plain[1].num_batches_tracked)
    torch.testing.assert_close(recorded[1].running_mean, plain[1].running_mean)
    assert list(recorded.state_dict()) == list(plain.state_dict())


@gpu
def test_gradients_of_several_recorded_batches_add_up():
    plain = make().cuda()
    recorded = copy.deepcopy(plain)
    images = torch.rand(2, 1, 8, 8, 8, device="cuda")
    graph_training(recorded, images, None)
    for number in range(3):
        for network in (plain, recorded):
            network(images + number).square().sum().backward()
    for one, other in zip(recorded.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(one.grad, other.grad, rtol=1e-4, atol=1e-3)


@gpu
def test_a_recording_follows_weights_that_move():
    recorded = make().cuda()
    images = torch.rand(2, 1, 8, 8, 8, device="cuda")
    graph_training(recorded, images, None)
    with torch.no_grad():
        for one in recorded.parameters():
            one.data = torch.zeros_like(one)
    assert not recorded(images).any()


@gpu
def test_further_shapes_share_memory():
    """Smaller batches' recordings take little beside the largest's: their in- and outputs and gradients."""
    network = nn.Sequential(*(nn.Conv3d(8, 8, 3, padding=1) for _ in range(8))).cuda()
    images = torch.rand(2, 8, 48, 48, 48, device="cuda")
    before = torch.cuda.memory_reserved()
    graph_training(network, images, None)
    first = torch.cuda.memory_reserved() - before
    network(images[:, :, :32]).sum().backward()
    torch.cuda.empty_cache()
    assert torch.cuda.memory_reserved() - before < 1.5 * first


def test_a_result_whose_tensors_no_recording_finds_is_refused():
    x = torch.rand(1)
    assert len(graphing.find_outs({"a": x, "b": [x, None, 1.0, "c"]})) == 2
    with pytest.raises(RuntimeError, match="returns SimpleNamespace; a recorded one returns tensors, lists or dictionaries"):
        graphing.find_outs((x, SimpleNamespace(y=x)))


def test_a_second_recording_replaces_the_first(monkeypatch):
    network = make()
    monkeypatch.setattr(GraphedForward, "record", lambda *_, **__: None)
    example = torch.rand(1, 1, 4, 4, 4)
    monkeypatch.setattr(torch.Tensor, "is_cuda", True)
    for _ in range(2):
        graph_training(network, example, None)
        assert network.forward.eager.__func__ is nn.Sequential.forward


def test_a_network_with_synchronized_norms_records_one_shape(monkeypatch):
    """Ranks see different shapes: what a rank records alone must not wait for the others."""
    monkeypatch.setattr(GraphedForward, "record", lambda *_, **__: None)
    monkeypatch.setattr(torch.Tensor, "is_cuda", True)
    network = nn.Sequential(nn.SyncBatchNorm(2))
    graph_training(network, torch.rand(1, 2, 4), None)
    assert network.forward._shapes == 1
