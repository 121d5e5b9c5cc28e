"""The exceptions of the package. Their words are the library's: one line, what is wrong and what to do."""


class Error(Exception):
    """What every exception of the package is."""


class UsageError(Error, ValueError):
    """An argument makes no sense."""


class SettingError(UsageError):
    """A setting is out of its range; ``name`` says which."""

    name: str = ""


class BadFileError(Error, ValueError):
    """A file was read, but what it holds cannot be used; ``path`` says which."""

    path: str = ""


class DeviceError(Error, RuntimeError):
    """The device cannot be used."""


class RunFailed(Error, RuntimeError):
    """The run itself failed, or diverged where that was to be an error."""


class Stopped(Error, RuntimeError):
    """The progress callback said stop."""


class DivergenceWarning(UserWarning):
    """Some chains left the range of images; they are in no mean. ``Result.diverged`` lists them."""
