"""`speedproof_spleen data …` with another registry: its one entry is what $PUBLISHED (JSON) says."""

import json
import os

from speedproof.results.registry import Entry
from speedproof_spleen import cli
from speedproof_spleen.data import prepare

prepare.find_entry = lambda *_: Entry(**json.loads(os.environ["PUBLISHED"]))
cli.main()
