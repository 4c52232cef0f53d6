"""The list of devices, which says why others are missing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from arrow_device import _native

__all__ = ["DeviceList", "devices"]


class DeviceList(list[_native.Device]):
    """A list of devices. ``missing`` has the reason for each kind of device of which there is none."""

    missing: dict[str, str]

    def __init__(
        self,
        devices: Iterable[_native.Device] = (),
        missing: Mapping[str, str] | Iterable[tuple[str, str]] = (),
    ) -> None:
        super().__init__(devices)
        self.missing = dict(missing)

    def __repr__(self) -> str:
        lines = [f"  {device!r},  # {device.name}" for device in self]
        lines += [f"  # no {name}: {why}" for name, why in self.missing.items()]
        return "\n".join(["[", *lines, "]"])


DeviceList.__module__ = "arrow_device"


def devices() -> DeviceList:
    """All devices that data can be copied to, with the reason for each kind of device of which there is none.

    Two kinds are for tests, and are in the list once a program has used one of their devices: the software device
    (``ext_dev``) and simulated hardware (``vpi``).

    >>> import arrow_device as ad
    >>> ad.devices()[0]
    Device('cpu', -1)
    """
    return DeviceList(*_native._found())
