"""Entry point of the command `twin`, which runs programs on simulated drives."""

import sys

from iopatterns.base import isolation


def main() -> None:
    """Run the command `twin` with the arguments of this process, and exit.

    `twin` runs programs on simulated drives. The exit status is 0 on success, 2 for wrong usage or an invalid model,
    and 1 for other failures. `twin run` and `twin linux` exit with the status of the program that they run.
    """
    isolation.ignore_user_modules()
    if len(sys.argv) > 1 and sys.argv[1] == "run":
        from iopatterns.twin.running import main as run_main

        run_main(sys.argv[2:])
    else:
        from iopatterns.twin.cli import main as cli_main

        cli_main()


if __name__ == "__main__":
    main()
