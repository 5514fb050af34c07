"""The images that messages hold at any depth: found, detached, and viewed as arrays.

    bare, images = detach(message)          # an equal message whose images are empty, and their bytes
    for frame in frames_of(message): ...    # every ImageFrame, in the order of `images`
    array = image_array(frame)              # a view, uint8 (height, width, channels) or uint16 (height, width)

A class that can hold no image costs one look into a dictionary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from operator import attrgetter
from typing import TYPE_CHECKING, Any, cast

from lucky_transport.errors import SpecError
from lucky_transport.lazy_dict import LazyDict
from lucky_transport.messages import ImageFrame
from lucky_transport.messages.fields import Field, fields_of

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


#: The bytes of one image.
ImageBytes = bytes | bytearray | memoryview

_Find = Callable[[Any, list[ImageFrame]], None]
_Empty = Callable[[Any, list[ImageBytes]], Any]


def holds_images(message: type) -> bool:
    """True for a message class that can hold images."""
    return _FINDERS[message] is not None


def frames_of(message: Any) -> list[ImageFrame]:
    """Return every image of a message, in wire order."""
    found: list[ImageFrame] = []
    find = _FINDERS[message.__class__]
    if find is not None:
        find(message, found)
    return found


def detach(message: Any) -> tuple[Any, list[ImageBytes]]:
    """Return the message without its images' bytes, and these in the order of `frames_of`; nothing is copied.

    The message itself is not changed, because an engine may be sending it to several clients at once; without images it
    is returned as it is. Raises AttributeError or TypeError for what is no such message.
    """
    images: list[ImageBytes] = []
    empty = _EMPTIERS[message.__class__]
    return (message if empty is None else empty(message, images)), images


def owned(message: Any) -> Any:
    """Return the message with all its images as bytes of their own; the message itself when they are already."""
    empty = _EMPTIERS[message.__class__]
    if empty is None or all(frame.data.__class__ is bytes for frame in frames_of(message)):
        return message
    bare, images = detach(message)
    for frame, data in zip(frames_of(bare), images, strict=True):
        frame.data = bytes(data)
    return bare


def image_array(frame: ImageFrame) -> NDArray[np.uint8] | NDArray[np.uint16]:
    """Return the image as a read-only view of `frame.data`, valid for as long as that is.

    It is uint8 (height, width, channels), or uint16 (height, width) for depth, in steps of `frame.depth_scale` metres.

    Raises SpecError when the number of bytes does not match the frame's sizes.
    """
    import numpy as np  # no other use of images needs it

    height, width, channels = frame.height, frame.width, frame.channels
    depth = frame.depth_scale > 0
    shape, dtype = ((height, width), "<u2") if depth else ((height, width, channels), "u1")
    expected = height * width * (2 if depth else channels)
    if len(frame.data) != expected:
        raise SpecError(
            f"an image of {len(frame.data)} bytes, expected {expected} for {width} x {height} pixels of "
            f"{'uint16 depth' if depth else f'{channels} channels'} (format {frame.format!r})",
            hint="ask for format 'raw'",
        )
    array = np.frombuffer(frame.data, dtype).reshape(shape)
    array.flags.writeable = False
    return array


def _per_class(make: Callable[[type], Any]) -> LazyDict[type, Any]:
    """Return a function per message class, None for one that can hold no image."""
    return LazyDict(lambda cls: make(cls) if _can_hold(cls) else None)


def _can_hold(cls: type, above: frozenset[type] = frozenset()) -> bool:
    """True when images can be in a message of this class, at any depth."""
    if cls is ImageFrame:
        return True
    if cls in above or not hasattr(cls, "__dataclass_fields__"):
        return False
    return any(field.message is not None and _can_hold(field.message, above | {cls}) for field in fields_of(cls))


def _holding(cls: type) -> list[tuple[int, Field]]:
    """Return the fields that can hold images, and their places."""
    found = enumerate(fields_of(cls))
    return [(at, field) for at, field in found if field.message is not None and _can_hold(field.message)]


def _inside(field: Field, value: Any) -> Iterator[Any]:
    """Yield the messages in a field's value."""
    if field.shape == "list":
        yield from value
    elif field.shape == "map":
        yield from value.values()
    elif value is not None:
        yield value


def _finder(cls: type) -> _Find:
    if cls is ImageFrame:
        return lambda message, found: found.append(message)
    holding = [field for _, field in _holding(cls)]

    def find(message: Any, found: list[ImageFrame]) -> None:
        for field in holding:
            for inner in _inside(field, getattr(message, field.name)):
                _FINDERS[cast(type, field.message)](inner, found)

    return find


def _emptier(cls: type[Any]) -> _Empty:
    names = [field.name for field in fields_of(cls)]
    if cls is ImageFrame:
        rest = attrgetter(*names[1:])

        def empty_frame(frame: Any, taken: list[ImageBytes]) -> Any:
            taken.append(frame.data)
            return ImageFrame(b"", *rest(frame))

        return empty_frame
    fields = fields_of(cls)
    holding = _holding(cls)

    def empty(message: Any, taken: list[ImageBytes]) -> Any:
        values = [getattr(message, field.name) for field in fields]
        for at, field in holding:
            inner = _EMPTIERS[cast(type, field.message)]
            value = values[at]
            if field.shape == "list":
                values[at] = [inner(one, taken) for one in value]
            elif field.shape == "map":
                values[at] = {key: inner(one, taken) for key, one in value.items()}
            elif value is not None:
                values[at] = inner(value, taken)
        return cls(*values)

    return empty


_FINDERS = _per_class(_finder)
_EMPTIERS = _per_class(_emptier)
