"""Entry point of the command `twin`."""

import sys


def main() -> None:
    """Run `twin`; exit with 2 for wrong usage or a bad model, 1 for a failure.

    `twin run` bypasses the rest of the command line so that it starts fast; it exits with the status of the program.
    """
    if len(sys.argv) > 1 and sys.argv[1] == "run":
        from iopatterns.twin.running import main as run_main

        run_main(sys.argv[2:])
    else:
        from iopatterns.twin.cli import main as cli_main

        cli_main()


if __name__ == "__main__":
    main()
