"""nnU-Net's augmentation for a whole batch on its device, one module per transformation.

Each module has a function with given parameters and a class that draws them. Parameters are drawn on the CPU, so nothing waits
for the GPU. Images are float32 of shape (samples, channels, …), labels integers of shape (samples, label channels, …).
"""
