"""ResUNet++ (Jha et al. 2019) in Keras 2 or 3: the network that :mod:`speedproof_polyp.torch_network` describes."""

from typing import Any

RATES = (6, 12, 18, 1)  # in the documented order, by which the initial weights are drawn
SQUEEZE = 8


def build_network(keras: Any, pixels: int = 256, filters: int = 16) -> Any:
    """Return the network, from pixels × pixels × 3 to pixels × pixels × 1 in [0, 1], made of the layers of `keras`."""
    layers = Layers(keras)
    widths = [filters * 2**level for level in range(5)]
    image = keras.Input((pixels, pixels, 3))
    skips = [layers.stem(image, widths[0])]
    for width in widths[1:4]:
        skips.append(layers.residual(skips[-1], width, 2))
    inner = layers.pyramid(skips.pop(), widths[4])
    for width in (widths[3], widths[2], widths[1]):
        skip = skips.pop()
        attended = keras.layers.UpSampling2D(2)(layers.attention(skip, inner))
        inner = layers.residual(keras.layers.Concatenate()([attended, skip]), width, 1)
    inner = layers.pyramid(inner, widths[0])
    probability = keras.layers.Conv2D(1, 1, activation="sigmoid", dtype="float32")(inner)
    return keras.Model(image, probability, name="ResUNetPlusPlus")


class Layers:
    """The network's parts, each from a tensor N × H × W × C to one."""

    def __init__(self, keras: Any) -> None:
        self.keras = keras.layers

    def convolution(self, image: Any, width: int, size: int, stride: int = 1, rate: int = 1) -> Any:
        """Return a convolution that keeps the size but for its stride."""
        return self.keras.Conv2D(width, size, strides=stride, padding="same", dilation_rate=rate)(image)

    def activated(self, image: Any, width: int, stride: int = 1) -> Any:
        """Return batch norm, ReLU and a convolution of 3×3."""
        return self.convolution(self.keras.ReLU()(self.keras.BatchNormalization()(image)), width, 3, stride)

    def shortcut(self, image: Any, width: int, stride: int = 1) -> Any:
        """Return what goes around a block."""
        return self.keras.BatchNormalization()(self.convolution(image, width, 1, stride))

    def dense(self, values: Any, width: int, activation: str) -> Any:
        """Return a dense layer without bias; He's initial weights are documented of these alone."""
        return self.keras.Dense(width, activation, use_bias=False, kernel_initializer="he_normal")(values)

    def excitation(self, image: Any) -> Any:
        """Return each channel weighted by what all of them hold on the mean."""
        width = image.shape[-1]
        squeezed = self.dense(self.keras.GlobalAveragePooling2D()(image), max(1, width // SQUEEZE), "relu")
        weights = self.dense(squeezed, width, "sigmoid")
        return self.keras.Multiply()([image, self.keras.Reshape((1, 1, width))(weights)])

    def stem(self, image: Any, width: int) -> Any:
        """Return the first block, which keeps the size."""
        inner = self.activated(self.convolution(image, width, 3), width)
        return self.excitation(self.keras.Add()([inner, self.shortcut(image, width)]))

    def residual(self, image: Any, width: int, stride: int) -> Any:
        """Return two activated convolutions beside a 1×1 one."""
        inner = self.activated(self.activated(image, width, stride), width)
        return self.excitation(self.keras.Add()([inner, self.shortcut(image, width, stride)]))

    def pyramid(self, image: Any, width: int) -> Any:
        """Return dilated convolutions side by side, joined by a 1×1 one."""
        branches = [self.keras.BatchNormalization()(self.convolution(image, width, 3, rate=rate)) for rate in RATES]
        return self.convolution(self.keras.Add()(branches), width, 1)

    def attention(self, skip: Any, below: Any) -> Any:
        """Return the deeper level's output, weighted by itself and by the skip connection, which is twice as high and wide."""
        width = below.shape[-1]
        side = self.keras.MaxPooling2D(2)(self.activated(skip, width))
        both = self.activated(self.keras.Add()([side, self.activated(below, width)]), width)
        return self.keras.Multiply()([both, below])
