"""A synthetic upper abdomen: which organs lie where, how bright they are, and how all that differs from body to body.

Millimetres in the patient's frame: x to the right, y to the front, z up, the origin amid the trunk at the spleen's height.
Sizes, places and Hounsfield units are typical of adults in the portal venous phase and are drawn for each body. Organs are
painted one over the other, and later ones displace earlier ones. So neighbours share a boundary, as pressed organs do, and
the layer of fat between them comes and goes.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from speedproof_spleen.data.shapes import Field, Noise, Space, ellipsoid, intersection, oval, tube, union

FAT_HU = -105.0
AIR_HU = -1000.0


@dataclass(frozen=True)
class Layer:
    """One thing to paint: its distance in mm (z, y, x), its Hounsfield units, and whether it is the spleen."""

    distance_mm: Field
    hu: float | Field
    is_spleen: bool = False


@dataclass(frozen=True)
class Body:
    """What is drawn once for a body and used by many of its organs. Lengths in mm, brightness in Hounsfield units."""

    half_width: float  # of the trunk's inside
    half_depth: float
    wall: float  # the muscles around it
    rim: float  # the fat around these
    dome: float  # the diaphragm's top, above the origin
    scale: float  # of the organs
    spleen_hu: float
    vessel_hu: float
    muscle_hu: float

    @property
    def skin(self) -> tuple[float, float]:
        """Return the half width and the half depth over all, in mm."""
        around = self.wall + self.rim
        return self.half_width + around, self.half_depth + around


def draw_body(rng: np.random.Generator) -> Body:
    """Return a body of random stature."""
    half_width = rng.uniform(118, 142)
    spleen_hu = rng.normal(118, 9)
    return Body(
        half_width=half_width,
        half_depth=half_width * rng.uniform(0.68, 0.77),
        wall=rng.uniform(12, 17),
        rim=rng.uniform(8, 28),
        dome=rng.uniform(68, 88),
        scale=half_width / 130 * rng.uniform(0.94, 1.06),
        spleen_hu=spleen_hu,
        vessel_hu=spleen_hu + rng.uniform(15, 55),
        muscle_hu=rng.uniform(52, 66),
    )


class Anatomy:
    """One body's organs on a grid with axes `z_mm`, `y_mm`, `x_mm`."""

    def __init__(self, body: Body, rng: np.random.Generator, z_mm: Field, y_mm: Field, x_mm: Field):
        self.body = body
        self._rng = rng
        self._noise = Noise(rng, z_mm, y_mm, x_mm)
        self._straight = Space(x_mm[None, None, :], y_mm[None, :, None], z_mm[:, None, None])
        self._space = self._bend(self._straight)

    def layers(self) -> Iterator[Layer]:
        """Yield everything there is to paint, in order, over air."""
        yield from self._couch()
        yield from self._trunk()
        yield from self._chest()
        yield from self._peritoneum()
        yield from self._bowel()
        yield from self._liver()
        yield from self._spleen()
        yield from self._pancreas()
        yield from self._stomach()
        yield from self._kidneys()
        yield from self._colon()
        yield from self._great_vessels()
        yield from self._back()
        yield from self._ribs_and_pelvis()

    def texture_hu(self) -> Field:
        """Return the slow unevenness of all tissue, in Hounsfield units."""
        return 3 * self._noise.field(9) + 2 * self._noise.field(25)

    def _bend(self, space: Space) -> Space:
        """Move every point by a smooth random displacement, the same for all organs, so that contacts stay contacts."""
        x, y, z = (5 * self._noise.field(75) for _ in range(3))
        return Space(space.x + x, space.y + y, space.z + z)

    def _bumps(self, spacing_mm: float, height_mm: float) -> Field:
        return np.float32(height_mm) * self._noise.field(spacing_mm)

    def _near_spleen_hu(self, low: float, high: float) -> float:
        return self.body.spleen_hu + self._rng.uniform(low, high)

    def _jitter(self, *center: float, by: float = 5.0) -> tuple[float, float, float]:
        x, y, z = (at + self._rng.uniform(-by, by) for at in center)
        return x, y, z

    def _at(self, u: float, v: float, z: float, by: float = 5.0) -> tuple[float, float, float]:
        """Return a point near the shares `u` and `v` of the trunk's half width and half depth, at height `z`."""
        return self._jitter(u * self.body.half_width, v * self.body.half_depth, z, by=by)

    def _sized(self, *semi_axes: float) -> tuple[float, float, float]:
        x, y, z = (axis * self.body.scale * self._rng.uniform(0.9, 1.1) for axis in semi_axes)
        return x, y, z

    def _wrapped(self, organ: Field, hu: float | Field, fat_mm: float, varies_mm: float) -> Iterator[Layer]:
        """Yield an organ within fat of about `fat_mm`; if that is below 0, the organ touches its neighbours."""
        yield Layer(organ - (fat_mm + self._bumps(28, varies_mm)), FAT_HU)
        yield Layer(organ, hu)

    # The trunk

    def _couch(self) -> Iterator[Layer]:
        x, y, z = self._straight.x, self._straight.y, self._straight.z
        top = -self.body.skin[1] - 6 - (200**2 - x * x) / 2500 + 0 * z
        yield Layer(np.maximum(np.abs(y - top) - 2.5, np.abs(x) - 205), 30)

    def _trunk(self) -> Iterator[Layer]:
        body, space = self.body, self._space
        self._skin = oval(space, (0, 0), body.skin)
        self._muscle = self._skin + body.rim * (1 + 0.25 * self._noise.field(90))
        self._inside = self._muscle + body.wall
        yield Layer(self._skin, 20)
        yield Layer(self._skin + 2, FAT_HU)
        yield Layer(self._muscle, body.muscle_hu)
        yield Layer(np.abs(self._muscle + 0.6 * body.wall + self._bumps(20, 1)) - 0.6, -40)  # fat between the muscles

    def _chest(self) -> Iterator[Layer]:
        """Yield the lungs' bases and the heart, over the diaphragm's two domes."""
        body, space = self.body, self._space
        width, depth = body.half_width, body.half_depth
        domes = []
        for side, height in ((1, body.dome + 8), (-1, body.dome)):
            u, v = (space.x - side * 0.45 * width) / width, (space.y - 0.05 * depth) / depth
            fall = u * u * 165 + v * v * 85
            steepness = np.sqrt(1 + (2 * 165 * u / width) ** 2 + (2 * 85 * v / depth) ** 2)
            domes.append((space.z - height + fall) / steepness)
        self._below_dome = union(*domes, blend_mm=12)
        yield Layer(self._inside, -860 + 40 * self._noise.field(40))
        yield Layer(np.maximum(self._inside + 3, self._noise.tubes(26, 2.2)), 20)
        heart = ellipsoid(space, self._at(-0.12, 0.35, body.dome + 28), self._sized(62, 52, 36))
        yield Layer(np.maximum(heart, self._inside + 2), body.vessel_hu - 20)
        yield Layer(np.maximum(self._below_dome, self._inside), body.muscle_hu)
        self._cavity = intersection(self._below_dome + 3, self._inside + 1, blend_mm=8)

    def _peritoneum(self) -> Iterator[Layer]:
        yield Layer(self._cavity, FAT_HU)
        yield Layer(np.maximum(self._cavity + 4, self._noise.tubes(30, 1.6)), self.body.vessel_hu - 30)

    # Organs

    def _bowel(self) -> Iterator[Layer]:
        """Yield loops of small bowel: they fill the abdomen below the stomach, and reach higher on the left."""
        space, depth = self._space, self.body.half_depth
        below = space.z + 22 + 0.2 * space.x
        region = intersection(below, -0.28 * depth - space.y, self._cavity + 4, blend_mm=20)
        loops = intersection(self._noise.tubes(20, 13), region, blend_mm=4)
        yield Layer(loops, self._near_spleen_hu(-45, -5))
        yield Layer(loops + 2.8, 35 + 45 * self._noise.field(45))
        yield Layer(np.maximum(loops + 4, 25 - 18 * self._noise.field(40)), -700)  # gas, here and there

    def _liver(self) -> Iterator[Layer]:
        space, rng = self._space, self._rng
        right = ellipsoid(space, self._at(0.50, 0.0, 8), self._sized(82, 88, 92))
        reach = rng.uniform(-0.30, 0.10)  # far to the left in some bodies, where it then touches the spleen
        left = ellipsoid(space, self._at(reach, 0.55, 30), self._sized(70, 30, 38))
        liver = intersection(union(right, left, blend_mm=18) + self._bumps(35, 2.5), self._cavity, blend_mm=6)
        liver_hu = self._near_spleen_hu(-15, 12)
        yield Layer(liver, liver_hu)
        yield Layer(np.maximum(liver + 6, self._noise.tubes(34, 3.2)), liver_hu + rng.uniform(15, 40))
        yield from self._wrapped(ellipsoid(space, self._at(0.34, 0.42, -28), self._sized(17, 20, 30)), 12, 0.5, 1)

    def _spleen(self) -> Iterator[Layer]:
        """Yield the spleen: it leans on the flank and the diaphragm, and rises to the back."""
        size = self.body.scale * self._rng.uniform(0.88, 1.28)
        center = self._at(-0.76, -0.38, 2, by=6)
        lean = (self._rng.uniform(0.05, 0.25), self._rng.uniform(-0.6, -0.2))
        whole = ellipsoid(self._space, center, (36 * size, 47 * size, 50 * size), lean)
        self._hilum = (center[0] + 36 * size, center[1] + 14, center[2])
        spleen = intersection(whole + self._bumps(32, 2.5), self._cavity + 1, blend_mm=8)
        yield Layer(spleen, self.body.spleen_hu, is_spleen=True)

    def _pancreas(self) -> Iterator[Layer]:
        """Yield the pancreas, whose tail points at the spleen, and the splenic vein behind it."""
        x, y, z = self._hilum
        course = [self._at(0.22, 0.06, -32), self._at(0.0, 0.16, -14), self._at(-0.26, 0.0, 2), (x - 6, y, z)]
        gland = tube(self._space, course, (15, 10, 11, 8)) + self._bumps(11, 1.8)
        yield from self._wrapped(gland, self._near_spleen_hu(-35, -5), 1, 1.5)
        behind = [(x, y - 9, z) for x, y, z in course[1:]]
        yield Layer(tube(self._space, behind, (5, 4.5, 4)), self.body.vessel_hu)

    def _stomach(self) -> Iterator[Layer]:
        """Yield the stomach, which dents the spleen's front; it holds water, a meal or contrast medium, under air."""
        space, rng = self._space, self._rng
        fullness = rng.uniform(0.85, 1.12)
        fundus = ellipsoid(space, self._at(-0.42, 0.10, 30), self._sized(38 * fullness, 38 * fullness, 38))
        corpus = ellipsoid(space, self._at(-0.34, 0.46, -4), self._sized(34 * fullness, 24 * fullness, 46))
        antrum = ellipsoid(space, self._at(-0.02, 0.50, -30), self._sized(36, 17, 18))
        shape = union(fundus, corpus, antrum, blend_mm=22) + self._bumps(24, 1.5)
        stomach = intersection(shape, self._cavity + 1, blend_mm=6)
        yield from self._wrapped(stomach, self._near_spleen_hu(-30, 5), 0.5, 1.8)
        content_hu, unevenness = ((12, 4), (60, 30), (self._near_spleen_hu(-10, 90), 12))[rng.integers(3)]
        lumen = stomach + rng.uniform(3, 5)
        yield Layer(lumen, content_hu + unevenness * self._noise.field(12))
        level = rng.uniform(0.35, 0.70) * self.body.half_depth
        yield Layer(np.maximum(lumen, level - self._straight.y), AIR_HU)

    def _kidneys(self) -> Iterator[Layer]:
        """Yield both kidneys; the left one dents the spleen from behind and below."""
        cortex_hu = self._near_spleen_hu(8, 55)
        medulla_hu = cortex_hu - self._rng.uniform(12, 35)
        for side, height in ((1, -46), (-1, -34)):
            center = self._at(side * 0.48, -0.40, height)
            lean = (side * -0.2, -0.12)
            kidney = ellipsoid(self._space, center, self._sized(29, 26, 54), lean) + self._bumps(22, 1)
            hilum = (center[0] - side * 17, center[1] + 7, center[2])
            sinus = ellipsoid(self._space, hilum, self._sized(15, 9, 24), lean) + self._bumps(14, 2.5)
            yield from self._wrapped(kidney, cortex_hu, 3, 3)
            yield Layer(np.maximum(kidney + 7, 3 * self._noise.field(13)), medulla_hu)
            yield Layer(sinus, FAT_HU)
            yield Layer(sinus + 5, 20)

    def _colon(self) -> Iterator[Layer]:
        """Yield the colon; its left bend lies under the spleen's tip."""
        bends = [
            self._at(0.74, -0.22, -230),
            self._at(0.74, -0.15, -75),
            self._at(0.45, 0.62, -62),
            self._at(-0.30, 0.70, -66),
            self._at(-0.74, 0.18, -48, by=8),
            self._at(-0.78, -0.18, -85),
            self._at(-0.72, -0.18, -230),
        ]
        course = tube(self._space, bends, (26, 23, 18, 18, 20, 15, 14)) + self._bumps(18, 2.5)
        colon = intersection(course, self._cavity + 2, blend_mm=5)
        yield from self._wrapped(colon, self._near_spleen_hu(-40, 0), 1, 2)
        yield Layer(colon + 2.5, 10 + 40 * self._noise.field(8))
        yield Layer(np.maximum(colon + 3.5, 6 - 9 * self._noise.field(22)), -800)

    def _great_vessels(self) -> Iterator[Layer]:
        """Yield aorta and vena cava in front of the spine, and the portal vein on its way to the liver."""
        front = -self.body.half_depth + 64
        for x, radius, hu in ((-13, 10.5, self.body.vessel_hu + 10), (20, 12.0, self.body.vessel_hu - 8)):
            course = [self._jitter(x, front, z, by=3) for z in (160, 40, -60, -330)]
            yield from self._wrapped(tube(self._space, course, [radius * self.body.scale] * 4), hu, 2, 1)
        portal = [self._at(0.02, 0.02, -16), self._at(0.2, 0.1, 8), self._at(0.38, 0.1, 26)]
        yield Layer(tube(self._space, portal, (6.5, 6.5, 5)), self.body.vessel_hu)

    # Bones and the muscles that hold them

    def _back(self) -> Iterator[Layer]:
        """Yield the spine, the muscles beside it and the spinal canal."""
        space, muscle_hu = self._space, self.body.muscle_hu
        back = -self.body.half_depth
        half = Space(np.abs(space.x), space.y, space.z)  # left and right at once
        psoas = tube(half, [(24, back + 34, -10), (36, back + 34, -110), (52, back + 50, -330)], (3, 19, 24))
        yield Layer(psoas + self._bumps(30, 1.5), muscle_hu)
        yield Layer(oval(half, (34, back + 1), (28, 19)) + self._bumps(20, 1.5), muscle_hu - 4 + 8 * self._noise.field(8))
        vertebra = oval(space, (0, back + 36), (22, 17)) + self._bumps(30, 1)
        yield Layer(vertebra, 85)  # discs, between the bones
        height = _repeat(space.z, 33, self._rng)
        yield from self._bone(np.maximum(vertebra, np.abs(height) - 13), 170)
        level = Space(half.x, space.y, height)
        arch = tube(level, [(0, back - 26, -6), (0, back - 5, 0), (15, back + 8, 0), (15, back + 24, 0)], (4, 5, 5, 6))
        processes = tube(level, [(15, back + 12, 0), (38, back + 8, 0)], (5, 4))
        yield from self._bone(union(arch, processes, blend_mm=3), 280)
        yield Layer(oval(space, (0, back + 11), (10, 8)), 25)

    def _ribs_and_pelvis(self) -> Iterator[Layer]:
        """Yield the ribs, which slope down to the front within the muscles, and the wings of the pelvis."""
        space, depth = self._space, self.body.half_depth
        from_wall = self._muscle + 0.55 * self.body.wall
        height = _repeat(space.z + 0.45 * space.y, 29, self._rng)
        across = np.sqrt((from_wall / 3.6) ** 2 + (height / 6.0) ** 2)
        rib = intersection(3.6 * (across - 1), -95 - space.z - 0.45 * space.y, 14 - np.abs(space.x), space.y - 0.75 * depth)
        yield from self._bone(rib, 220, cortex_mm=1.5)
        wing = np.maximum(np.abs(self._inside - 1 + self._bumps(40, 2)) - 5, space.z + 165 - 0.25 * space.y)
        yield from self._bone(intersection(wing, space.y - 0.3 * depth, 38 - np.abs(space.x)), 200)

    def _bone(self, shape: Field, marrow_hu: float, cortex_mm: float = 2.0) -> Iterator[Layer]:
        yield Layer(shape, 550)
        yield Layer(shape + cortex_mm, marrow_hu)


def _repeat(z: Field, period_mm: float, rng: np.random.Generator) -> Field:
    """Return the height above the middle of the part that `z` lies in, where equal parts are stacked from a random start."""
    return np.mod(z + rng.uniform(0, period_mm), np.float32(period_mm)) - np.float32(period_mm / 2)
