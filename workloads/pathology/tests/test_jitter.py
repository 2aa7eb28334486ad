"""Colours change as torchvision changes them: values worked out by hand, and torchvision itself where it is."""

import pytest
import torch

from speedproof_pathology import jitter


def picture_of(*colours):
    return torch.tensor(colours, dtype=torch.uint8).T.reshape(3, 1, -1)


def colours_of(picture):
    return picture.reshape(3, -1).T.tolist()


def test_each_operation_rounds_down_to_bytes():
    picture = picture_of((100, 50, 200), (255, 255, 255))
    assert colours_of(jitter.scale_brightness(picture, 0.5)) == [[50, 25, 100], [127, 127, 127]]
    assert colours_of(jitter.scale_brightness(picture, 1.5)) == [[150, 75, 255], [255, 255, 255]]
    # Greys: 0.2989·100 + 0.587·50 + 0.114·200 = 82.04 and 254.97, so 82 and 254; their mean is 168.
    assert colours_of(jitter.mix_with_grey(picture, 0.0)) == [[82, 82, 82], [254, 254, 254]]
    assert colours_of(jitter.mix_with_grey(picture, 0.5)) == [[91, 66, 141], [254, 254, 254]]
    assert colours_of(jitter.mix_with_mean(picture, 0.5)) == [[134, 109, 184], [211, 211, 211]]


def test_hues_turn_around_their_circle():
    picture = picture_of((255, 0, 0), (0, 255, 0), (200, 100, 100), (77, 77, 77), (0, 0, 0))
    turned = [[0, 255, 0], [0, 0, 255], [100, 200, 100], [77, 77, 77], [0, 0, 0]]
    assert colours_of(jitter.turn_hue(picture, 1 / 3)) == turned
    assert colours_of(jitter.turn_hue(picture, 0.0)) == colours_of(picture)
    assert colours_of(jitter.turn_hue(jitter.turn_hue(picture, 0.25), -0.25)) == colours_of(picture)


def test_a_batch_is_its_pictures_each_with_its_own_strength():
    torch.manual_seed(0)
    pictures = torch.randint(0, 256, (3, 3, 8, 8), dtype=torch.uint8)
    for operation, strengths in zip(
        jitter.OPERATIONS, ((0.8, 1.0, 1.2), (0.3, 1.0, 1.7), (0.8, 1.0, 1.2), (-0.04, 0.0, 0.03)), strict=True
    ):
        batch = operation(pictures, torch.tensor(strengths).reshape(3, 1, 1, 1))
        alone = torch.stack([operation(one, strength) for one, strength in zip(pictures, strengths, strict=True)])
        assert (batch.int() - alone.int()).abs().max() <= 1  # strengths of 32 instead of 64 bits
    torch.manual_seed(1)
    changed = jitter.jitter_batch(pictures)
    assert changed.dtype == torch.uint8 and not torch.equal(changed, pictures)


def test_colours_are_torchvisions_to_the_byte():
    transforms = pytest.importorskip("torchvision.transforms", reason="torchvision is not installed here")
    theirs = transforms.ColorJitter(jitter.BRIGHTNESS, jitter.CONTRAST, jitter.SATURATION, jitter.HUE)
    picture = torch.randint(0, 256, (3, 224, 224), dtype=torch.uint8)
    for seed in range(20):
        torch.manual_seed(seed)
        expected = theirs(picture)
        torch.manual_seed(seed)
        assert torch.equal(jitter.jitter(picture), expected)
