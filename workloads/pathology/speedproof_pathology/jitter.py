"""Colour jitter of bytes, in torch: a picture at a time as torchvision draws and rounds it, or a batch with a strength each.

Brightness scales a picture, contrast mixes it with its mean grey, saturation with its own grey (ITU-R 601's luma), hue turns it
around the axis of HSV. Each of the four rounds down to bytes, and they follow each other in an order that is drawn.
"""

from collections.abc import Callable

import torch
from torch import Tensor

BRIGHTNESS, CONTRAST, SATURATION, HUE = 64 / 255, 0.75, 0.25, 0.04
# What is drawn for each, between its bounds, in the order of torchvision's operations.
BOUNDS = ((1 - BRIGHTNESS, 1 + BRIGHTNESS), (1 - CONTRAST, 1 + CONTRAST), (1 - SATURATION, 1 + SATURATION), (-HUE, HUE))
_LUMA = (0.2989, 0.587, 0.114)


def jitter(picture: Tensor) -> Tensor:
    """Return a picture of 3 × H × W bytes in other colours, drawn from torch's generator as torchvision's ColorJitter draws."""
    order = torch.randperm(len(BOUNDS)).tolist()
    strengths = [float(torch.empty(1).uniform_(*bounds)) for bounds in BOUNDS]
    for number in order:
        picture = OPERATIONS[number](picture, strengths[number])
    return picture


def jitter_batch(pictures: Tensor) -> Tensor:
    """Return N × 3 × H × W bytes in other colours: strengths are each picture's own, the order of operations is the batch's."""
    order = torch.randperm(len(BOUNDS)).tolist()
    strengths = [torch.empty(len(pictures), 1, 1, 1, device=pictures.device).uniform_(*bounds) for bounds in BOUNDS]
    for number in order:
        pictures = OPERATIONS[number](pictures, strengths[number])
    return pictures


def scale_brightness(picture: Tensor, strength: float | Tensor) -> Tensor:
    """Return `strength` times the picture."""
    return _to_bytes(picture * strength)


def mix_with_mean(picture: Tensor, strength: float | Tensor) -> Tensor:
    """Return the picture of that contrast: at strength 0 the mean of its grey."""
    mean = _grey(picture).to(torch.float32).mean(dim=(-3, -2, -1), keepdim=True)
    return _mix(picture, mean, strength)


def mix_with_grey(picture: Tensor, strength: float | Tensor) -> Tensor:
    """Return the picture of that saturation: at strength 0 its grey."""
    return _mix(picture, _grey(picture), strength)


def turn_hue(picture: Tensor, turn: float | Tensor) -> Tensor:
    """Return the picture with hues turned by so much of the circle."""
    red, green, blue = (picture.to(torch.float32) / 255).unbind(-3)
    value, smallest = torch.maximum(torch.maximum(red, green), blue), torch.minimum(torch.minimum(red, green), blue)
    chroma = value - smallest
    grey = chroma == 0
    saturation = chroma / torch.where(grey, torch.ones_like(value), value)
    divisor = torch.where(grey, torch.ones_like(chroma), chroma)
    from_red, from_green, from_blue = ((value - one) / divisor for one in (red, green, blue))
    is_red, is_green = value == red, value == green
    hue = torch.where(
        is_red, from_blue - from_green, torch.where(is_green, 2 + from_red - from_blue, 4 + from_green - from_red)
    )
    hue = torch.fmod(hue / 6 + 1, 1)
    hue = torch.remainder(hue + (turn if isinstance(turn, float) else turn.squeeze(-3)), 1)
    return _scale_to_bytes(_from_hsv(hue, saturation, value))


def _from_hsv(hue: Tensor, saturation: Tensor, value: Tensor) -> Tensor:
    """Return red, green and blue of each sextant of the circle of hues, all between 0 and 1."""
    sixths = hue * 6
    sextant = torch.floor(sixths)
    part = sixths - sextant
    low = (value * (1 - saturation)).clamp(0, 1)
    falling = (value * (1 - saturation * part)).clamp(0, 1)
    rising = (value * (1 - saturation * (1 - part))).clamp(0, 1)
    sextant = sextant.to(torch.int64) % 6
    colours = (
        (value, falling, low, low, rising, value),
        (rising, value, value, falling, low, low),
        (low, low, rising, value, value, falling),
    )
    return torch.stack([torch.stack(ones, dim=-1).gather(-1, sextant.unsqueeze(-1)).squeeze(-1) for ones in colours], dim=-3)


OPERATIONS: tuple[Callable[[Tensor, float | Tensor], Tensor], ...] = (scale_brightness, mix_with_mean, mix_with_grey, turn_hue)


def _grey(picture: Tensor) -> Tensor:
    red, green, blue = picture.unbind(-3)
    return (_LUMA[0] * red + _LUMA[1] * green + _LUMA[2] * blue).to(picture.dtype).unsqueeze(-3)


def _mix(picture: Tensor, other: Tensor, strength: float | Tensor) -> Tensor:
    return _to_bytes(strength * picture + (1.0 - strength) * other)


def _to_bytes(values: Tensor) -> Tensor:
    return values.clamp(0, 255).to(torch.uint8)


def _scale_to_bytes(shares: Tensor) -> Tensor:
    return (shares * (256 - 1e-3)).to(torch.uint8)
