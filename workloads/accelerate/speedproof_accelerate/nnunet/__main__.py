"""`python -m speedproof_accelerate.nnunet` prints the folder in which nnU-Net finds the trainers."""

from pathlib import Path

if __name__ == "__main__":
    print(Path(__file__).parent / "trainers")
