"""The entry point of the `hanabi` command. Ctrl-C while its modules are imported ends it without a traceback."""

import signal


def main() -> None:
    """Run the command of the process's arguments."""
    with_python = signal.getsignal(signal.SIGINT)
    if with_python is signal.default_int_handler:  # and not ignored, as for a job in the background
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from hanabi.cli.main import main as run

    signal.signal(signal.SIGINT, with_python)
    run()
