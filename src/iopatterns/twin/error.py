"""Error that the simulated drives and the command `twin` raise."""

from iopatterns.base.errors import IoPatternsError


class TwinError(IoPatternsError):
    """Error in a model, a trace or a command for a simulated drive.

    A model is a file with the parameters of a drive. A trace is a file with requests to a drive. The message names the
    faulty file, its key or line where there is one, and the valid values.

    Attributes:
        exit_status: Exit status of the command `twin` for this error.
    """

    exit_status = 2
