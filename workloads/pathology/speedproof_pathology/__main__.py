"""`python -m speedproof_pathology`: what `workload.yaml` names, for the instrument; so can you."""

from speedproof.api import run_app
from speedproof_common.commands import make_app

app = make_app("speedproof_pathology", "MONAI's pathology", "speedproof_pathology.data")

if __name__ == "__main__":
    run_app(app)
