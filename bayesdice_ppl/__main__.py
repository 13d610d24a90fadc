"""Let `python -m bayesdice_ppl` be the command line."""

from bayesdice_ppl.cli import main

main()
