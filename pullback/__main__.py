"""`python -m pullback`: the command line."""

from pullback.cli.main import main

if __name__ == "__main__":
    raise SystemExit(main())
