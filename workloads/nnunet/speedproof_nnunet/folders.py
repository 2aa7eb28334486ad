"""Where nnU-Net finds its data: three variables, each with a folder."""

from pathlib import Path

RAW, PREPROCESSED, RESULTS = "nnUNet_raw", "nnUNet_preprocessed", "nnUNet_results"
TASK = "Task09_Spleen"
DATASET = "Dataset009_Spleen"  # the name that nnU-Net makes of TASK
FOLD = 0


def list_variables(data: Path, results: Path) -> dict[str, str]:
    """Return nnU-Net's variables for a prepared folder, and for the folder that its results are written to."""
    data = data.resolve()
    return {RAW: str(data / RAW), PREPROCESSED: str(data / PREPROCESSED), RESULTS: str(results.resolve())}
