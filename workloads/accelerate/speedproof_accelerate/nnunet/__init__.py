"""nnU-Net's training with its augmentation on the device: batches of tensors, no worker processes. See docs/nnunet.md.

nnU-Net, batchgeneratorsv2 and dynamic_network_architectures are licensed under Apache-2.0. This package calls them and contains
none of their code.
"""
