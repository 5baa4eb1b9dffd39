"""`python -m hanabi` is the `hanabi` command."""

from hanabi.cli.start import main

if __name__ == "__main__":
    main()
