"""What every device is, whatever it is a device of: made of a few words and its settings, and closed once."""

from __future__ import annotations

from abc import abstractmethod
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from understudy.core.settings import DeviceSettings
from understudy.core.shown import Rows, Shown, fields_of

Choices = TypeVar("Choices", bound=DeviceSettings)


class Device(Shown, Generic[Choices]):
    """A bare device. `settings` are its choices; ``with`` closes it.

    What is pickled of a device is its description, by which a fresh one is made: never what is in it, nor who listens.
    """

    settings: Choices

    @abstractmethod
    def close(self) -> None:
        """Stop for good; once is enough."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _made_of(self) -> tuple[Any, ...]:
        """What the constructor takes before the settings."""
        return ()

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (*self._made_of(), self.settings)

    def _rows(self) -> Rows:
        return fields_of(self.settings)
