"""`python -m speedproof_nnunet`: the commands that `workload.yaml` names."""

import sys

if __name__ == "__main__" and not sys.flags.safe_path:
    del sys.path[0]  # the working folder, by `-m`: a module there is not ours

from speedproof.api import run_app
from speedproof_common.commands import make_app

app = make_app("speedproof_nnunet", "nnU-Net v2", "speedproof_nnunet.prepare")

if __name__ == "__main__":
    run_app(app)
