"""nnU-Net trained with augmentation of whole batches on the device. See nnunet.md beside the README.

nnU-Net, batchgeneratorsv2 and dynamic_network_architectures are licensed under Apache-2.0. This package calls them and contains
none of their code.
"""
