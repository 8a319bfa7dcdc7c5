"""``python -m gputailor_exporter``: the command without its installed script."""

import sys

from gputailor_exporter.cli import main

sys.exit(main())
