"""Entry point of the command `iopatterns`."""

from iopatterns.base import isolation


def main() -> None:
    """Run the command `iopatterns` with the arguments of this process, and exit.

    The exit status is 0 after success, 2 for wrong usage or configuration, 128 + N after signal N, and 1 for other
    errors.
    """
    isolation.ignore_user_modules()
    from iopatterns import cli

    cli.main()


if __name__ == "__main__":
    main()
