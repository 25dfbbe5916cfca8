"""The command `twin`. Running a program must begin at once, so `twin run` goes past the rest of the command line."""

import sys


def main() -> None:
    """Run the command line: 2 for wrong usage or a bad model, 1 for a failure, else the status of the program run."""
    if len(sys.argv) > 1 and sys.argv[1] == "run":
        from iopatterns.twin.running import main as run_main

        run_main(sys.argv[2:])
    else:
        from iopatterns.twin.cli import main as cli_main

        cli_main()


if __name__ == "__main__":
    main()
