"""`python -m hanabi` is the `hanabi` command."""

from hanabi.cli.main import main

if __name__ == "__main__":
    main()
