"""The folder for nnU-Net's variable `nnUNet_extTrainer`."""
