"""``python -m qcs`` is the command ``qcs``."""

import sys

from ._command import main

sys.exit(main())
