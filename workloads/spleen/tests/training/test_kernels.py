"""What holds for all kernels: any layout of memory serves, few programs share much work; and kernels that only move values."""

import pytest
import torch
from monai.losses import DiceCELoss

from workloads.spleen.tests.training.kernel_checks import (
    CONVOLUTIONS,
    DEVICE,
    assert_close,
    assert_convolves_as_its_reference,
    convolution_inputs,
    draw,
    draw_norm,
    norm_results,
    on_device,
    references,
)

pytestmark = pytest.mark.usefixtures("exact_products")


LAYOUTS = {
    "channels first": lambda volume: volume.contiguous(),
    "cut out of a wider one": lambda volume: torch.cat([volume, volume], dim=1)[:, volume.shape[1] :],
    "one number for all voxels": lambda volume: volume.mean().expand(volume.shape),
}


@pytest.mark.parametrize("name", [*CONVOLUTIONS, "batch_norm_prelu"])
@pytest.mark.parametrize("lay_out", LAYOUTS.values(), ids=LAYOUTS)
def test_any_layout_of_volumes_and_gradients_serves(kernels, name, lay_out):
    torch.manual_seed(0)
    if name == "batch_norm_prelu":
        x, norm, (slope, conv_bias, residual, residual_bias) = draw_norm(4, (2, 2, 4, 8), residual=True)
        norm, conv_bias = norm.to(DEVICE), on_device(conv_bias)
        volumes, parameters, without = [x, residual], [slope, residual_bias], ()

        def operation(x, residual, slope, residual_bias):
            return kernels.batch_norm_prelu(x, norm, slope, conv_bias, residual, residual_bias)
    else:
        operation = getattr(kernels, CONVOLUTIONS[name])
        volumes, parameters, without = convolution_inputs(name, (2, 2, 4, 6))
    results = []
    for lies in (lambda volume: on_device(lay_out(volume)), lay_out):
        inputs = [*(lies(on_device(one)) for one in volumes), *(on_device(one) for one in parameters)]
        needed = [one.detach().requires_grad_() for number, one in enumerate(inputs) if number not in without]
        out = operation(*inputs[: len(without)], *needed)
        outs = out if isinstance(out, tuple) else (out,)
        torch.manual_seed(3)
        results.append([*outs, *torch.autograd.grad(outs, needed, [lies(on_device(torch.randn(one.shape))) for one in outs])])
    assert_close(results[1], results[0])


def test_few_programs_share_much_work(modules, kernels, monkeypatch):
    """As on a GPU, where a volume has more tiles than there are programs: each goes on until all are done."""
    torch.manual_seed(0)
    vectorized, wide = modules.conv3d_strided_vectorized, modules.conv3d_strided_wide
    for module in (modules.batch_norm_prelu, modules.conv3d_strided_generic, vectorized, wide, modules.dice_ce_loss):
        monkeypatch.setattr(module, "_PROGRAMS", 3)
    monkeypatch.setattr(modules.conv3d, "_ALL_WARPS", 3 * 4)
    for module, name in ((wide, "_BESIDE"), (vectorized, "_DOUBLED_BESIDE")):
        monkeypatch.setattr(module, name, 1)
    monkeypatch.setattr(vectorized, "_BESIDE", dict.fromkeys((1, 2), (1, 255)))
    x, norm, values = draw_norm(32, (4, 8, 6, 10), residual=False)
    assert_close(norm_results(kernels, x, norm, values, torch.float32), norm_results(references, x, norm, values))
    for name in CONVOLUTIONS:
        volumes, parameters, without = convolution_inputs(name, (2, 4, 6, 10))
        assert_convolves_as_its_reference(kernels, name, volumes, parameters, without=without)
    logits, labels = draw(2, 2, 21, 10, 20), torch.randint(0, 2, (2, 1, 21, 10, 20)).byte()
    monais = DiceCELoss(to_onehot_y=True, softmax=True, squared_pred=True, batch=True, smooth_nr=0.1, smooth_dr=0.1)
    found = modules.dice_ce_loss.dice_ce_loss(on_device(logits), labels.to(DEVICE), 0.1, 1.0)
    assert_close([found], [monais(logits, labels)])


@pytest.mark.parametrize("kind", [torch.float32, torch.float16], ids=["fp32", "half"])
@pytest.mark.parametrize("channels", [8, 16, 24, 32])
def test_joined_channels_come_apart_again_and_so_do_their_gradients(kernels, channels, kind):
    torch.manual_seed(0)
    first, second = (on_device(torch.randn(3, channels, 5, 6, 7), kind).requires_grad_() for _ in range(2))
    both = kernels.concat_channels(first, second)
    assert torch.equal(both, torch.cat([first, second], dim=1))
    one, other = kernels.split_channels(both)
    assert torch.equal(one, first)
    assert torch.equal(other, second)
    above = on_device(torch.randn(both.shape), kind)
    (both * above).sum().backward()
    assert torch.equal(torch.cat([first.grad, second.grad], dim=1), above)
    (joined,) = torch.autograd.grad((one, other), both, (above[:, :channels], above[:, channels:]))
    assert torch.equal(joined, above)


@pytest.mark.parametrize("shapes", [((8, 2), (16, 2)), ((12, 2), (12, 2)), ((8, 2), (8, 3))])
def test_unlike_volumes_and_channels_that_make_no_whole_chunks_are_not_joined(kernels, shapes):
    volumes = [on_device(torch.zeros(1, channels, 2, 2, side)) for channels, side in shapes]
    with pytest.raises(ValueError, match=r"volumes of shapes \(1, .*\) do not make one"):
        kernels.concat_channels(*volumes)


@pytest.mark.parametrize("channels", [17, 24])
def test_channels_that_do_not_come_in_two_halves_of_whole_chunks_are_not_split(kernels, channels):
    with pytest.raises(ValueError, match=f"do not make one of {channels} channels"):
        kernels.split_channels(on_device(torch.zeros(1, channels, 2, 2, 2)))


@pytest.mark.parametrize("count", [2, 1])
def test_weights_are_laid_out_and_their_gradients_gathered_as_worked_out_by_hand(modules, count):
    """Two weights, of one tensor or of one each, that stand twice in the matrix.

    Half precision rounds 2049 to 2048. It rounds the second weight's gradient, 2049 of one program and 2 of another, to 2052.
    """
    none = modules.weight_matrices.NONE
    places = torch.tensor([[0, 1, none], [none, 1, 0]])
    layout = modules.weight_matrices.Layout.of(places, places, 2, DEVICE)
    weights = list(torch.tensor([5.0, 2049.0], device=DEVICE).split(count))
    matrix = modules.weight_matrices.spread(weights, layout, torch.float16)
    assert matrix.dtype == torch.float16
    assert matrix.tolist() == [[5, 2048, 0], [0, 2048, 5]]
    found = [[1.0, 2048.0, 4.0, 8.0, 1.0, 32.0], [64.0, 1.0, 128.0, 256.0, 1.0, 512.0]]
    for kind, second in ((torch.float32, 2051), (torch.float16, 2052)):
        partial = torch.tensor(found, device=DEVICE)
        gradients = modules.weight_matrices.gather(partial, layout, [one.to(kind) for one in weights])
        assert {one.dtype for one in gradients} == {kind}
        assert [one.tolist() for one in gradients] == [one.tolist() for one in torch.tensor([609, second]).split(count)]


def test_programs_of_any_number_and_weights_that_fill_no_whole_blocks_are_all_added_up(modules, monkeypatch):
    torch.manual_seed(0)
    for name, number in {"_SUMMED": 128, "_MATRICES": 2, "_GATHERED": 32}.items():
        monkeypatch.setattr(modules.weight_matrices, name, number)
    numbers = torch.randperm(200).view(4, 50).remainder(100)  # each twice; weights: the first 75
    places = numbers.where(numbers < 75, modules.weight_matrices.NONE)
    layout = modules.weight_matrices.Layout.of(places, places, 75, DEVICE)
    partial = torch.randint(-9, 9, (2 * modules.weight_matrices._SHARES + 1, 200)).float()
    expected = torch.zeros(100).index_add(0, numbers.flatten(), partial.sum(dim=0))[:75]
    (found,) = modules.weight_matrices.gather(partial.to(DEVICE), layout, [torch.empty(75, device=DEVICE)])
    assert torch.equal(found.cpu(), expected)
