"""`python -m federico` is `federico`."""

from federico.cli.main import main

main()
