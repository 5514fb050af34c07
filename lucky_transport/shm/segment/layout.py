"""The layout of a segment, version 1 (little-endian). All offsets are computed here; the C headers are made from it.

    0      4096
    │header│observations│actions│rewards│terminated│truncated│control│signals│ring│ring│images│spec│error│envs│arena│arena│

`SEED_FIELDS` are the fields of the original plan, in its order and naturally aligned. What that plan lacks is in the
extension block (`EXTENSION_FIELDS`), prefixed with its size and announced by feature bits: a peer that knows only the
first fields still works. Fields are appended, never moved. Regions start on 64-byte boundaries. The arenas
(`lucky_transport.shm.arena`) lie behind the segment's `total_size`, since they are no memory until they are used.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntFlag
from typing import TYPE_CHECKING, NamedTuple

from lucky_transport.errors import SpecError
from lucky_transport.shm.arena import PAGE
from lucky_transport.shm.ring import CACHE_LINE, DEFAULT_RING_BYTES
from lucky_transport.shm.ring import HEAD_BYTES as RING_HEAD_BYTES

if TYPE_CHECKING:
    from lucky_transport.spec.batch_spec import BatchSpec


MAGIC = 0x4C524243  # "LRBC"
VERSION = 1
HEADER_BYTES = 4096
REGION_ALIGNMENT = 64
EXTENSION_OFFSET = 1024
ERROR_BYTES = 4096
#: Before the arrays of the envs region: two counts and two park words, see `env_words.py`.
ENV_WORDS_HEAD = 512
MOST_SLOTS = 64


class Feature(IntFlag):
    """What a side understands of the extension block; each side writes its own word."""

    WAKE = 1  # honours park words
    HOLD = 2  # control bit 1
    STATUS = 4  # frame_status and the error region
    SIGNALS = 8  # the signals region
    TRUNCATED = 16  # the truncated region's offset in the extension block
    SPEC = 32  # the spec region
    PARKS = 64  # may park, so its peer must wake it; a side that only polls saves the peer the system call
    SLOTS = 128  # frames by turns in the observation slots; where either side lacks it, all in the first
    ARENAS = 256  # long messages beside the rings; where either side lacks it, they are cut into fragments
    DEVICE_ONLY = 512  # the engine leaves the observations region alone while client_observations is 1
    ENVS = 1024  # the engine steps single envs, by the words of the envs region
    EVENTS = 2048  # the client uses device memory in the order of the two events, where the engine offers them


class EngineState:
    """Values of `engine_state`."""

    LOADING, READY, CLOSING = 0, 1, 2


class FieldPlace(NamedTuple):
    """One header field: byte offset, `struct` code ("64s" for raw bytes), what it holds."""

    name: str
    offset: int
    code: str
    meaning: str


_SIZES = {"B": 1, "I": 4, "Q": 8}

#: (name, code, own cache line?, meaning), in the seed's order.
_SEED: tuple[tuple[str, str, bool, str], ...] = (
    ("magic", "I", False, "0x4C524243, 'LRBC'"),
    ("version", "I", False, "1; written last, with release order: the segment is ready"),
    ("server_pid", "I", False, "engine process"),
    ("client_pid", "I", False, "client process, 0 when none is attached"),
    ("mode", "B", False, "0 training (lock-step, all envs alike), 1 inference (free-running)"),
    ("num_envs", "I", False, "envs stepped together"),
    ("obs_size", "I", False, "observation elements per env"),
    ("act_size", "I", False, "action elements per env"),
    ("frame_seq", "Q", True, "frames written; the engine adds 1 after the whole frame"),
    ("action_seq", "Q", True, "actions written; the client adds 1 after all actions"),
    ("obs_offset", "Q", True, "observations [num_envs, obs_size]"),
    ("act_offset", "Q", False, "actions [num_envs, act_size]"),
    ("rewards_offset", "Q", False, "rewards f32 [num_envs]"),
    ("dones_offset", "Q", False, "terminated u8 [num_envs]"),
    ("resets_offset", "Q", False, "control u8 [num_envs]: 0 step, bit 0 reset, bit 1 hold"),
    ("cmd_s2c_offset", "Q", False, "command ring, engine to client"),
    ("cmd_c2s_offset", "Q", False, "command ring, client to engine"),
    ("cmd_ring_size", "I", False, "data bytes of each ring, a power of two (a 256-byte head comes before them)"),
    ("image_offset", "Q", False, "images u8 [num_envs, height, width, channels], 0 when there are none"),
    ("image_width", "I", False, "pixels"),
    ("image_height", "I", False, "pixels"),
    ("image_channels", "I", False, "bytes per pixel"),
    ("gpu_available", "B", False, "1 when GPU buffers are exported"),
    ("gpu_obs_mode", "B", False, "0 CPU, 1 CUDA IPC, 2 Vulkan external memory"),
    ("gpu_obs_handle", "64s", False, "cudaIpcMemHandle_t"),
    ("gpu_device_id", "I", False, "CUDA device ordinal"),
)

_EXTENSION: tuple[tuple[str, str, bool, str], ...] = (
    ("ext_size", "I", True, "bytes of this block; a reader uses no field beyond it"),
    ("engine_features", "I", False, "Feature bits the engine understands"),
    ("client_features", "I", False, "Feature bits the client understands; 0 for one that knows only the seed"),
    ("engine_state", "I", False, "0 loading, 1 ready, 2 closing"),
    ("server_start", "Q", False, "engine's start time in clock ticks since boot (guards against a reused pid)"),
    (
        "client_start",
        "Q",
        False,
        "client's start time; set before its features, cleared before its pid",
    ),
    ("total_size", "Q", False, "bytes of the whole segment, without its arenas"),
    ("truncated_offset", "Q", False, "truncated u8 [num_envs]"),
    ("signals_offset", "Q", False, "signals f32 [num_terms, num_envs]: reward terms, then termination terms"),
    ("num_terms", "I", False, "rows of the signals region"),
    ("obs_dtype", "I", False, "element type of observations: index into the dtype list, 0 = f32"),
    ("act_dtype", "I", False, "element type of actions, by the same codes"),
    ("obs_slots", "I", False, "observation slots, one behind the other; frame n goes to slot n modulo this (SLOTS)"),
    ("spec_offset", "Q", False, "the batch spec, UTF-8 JSON"),
    ("spec_size", "I", False, "bytes of the spec"),
    ("error_size", "I", False, "bytes of the error region"),
    ("error_offset", "Q", False, "u32 wire code, u32 length, UTF-8 text: why the last exchange has no frame"),
    ("schema_hash", "Q", False, "first 8 bytes of the spec's SHA-256"),
    ("heartbeat", "Q", True, "engine adds 1 whenever it looks at the segment: tells hung from idle"),
    ("park_engine", "I", True, "0 awake, 1 parked: the engine waits for actions or commands"),
    ("peer_cpu_engine", "I", False, "the CPU on which the client published last, plus 1: a hint; 0: not said"),
    ("park_frame", "I", True, "the client waits for a frame"),
    ("peer_cpu_frame", "I", False, "the CPU on which the engine published a frame last, plus 1"),
    ("park_command", "I", True, "the client waits for a command's answer"),
    ("peer_cpu_command", "I", False, "the CPU on which the engine wrote to the client's ring last, plus 1"),
    ("server_lock", "Q", True, "byte of the lock file that the engine alone holds for as long as it lives; 0: byte 0"),
    ("client_lock", "Q", False, "the client's; set before its features, 0 for a client that is known by its pid only"),
    ("server_pid_namespace", "Q", False, "pid namespace (inode) that server_pid and server_start are of; 0: not known"),
    ("client_pid_namespace", "Q", False, "the client's; set before its features"),
    ("gpu_obs_size", "Q", False, "bytes of the observations on the GPU; 0: not said, as many as here"),
    ("gpu_obs_offset", "Q", False, "bytes from the begin of the allocation that gpu_obs_handle opens"),
    ("gpu_obs_generation", "I", False, "another for each handle; odd while it is changed; 0: there is only one"),
    ("gpu_client_generation", "I", False, "that of the handle the client has open, with bit 0 set; 0: none"),
    ("gpu_device_uuid", "16s", False, "of the device, the same in every process; zeros: by gpu_device_id"),
    ("arena_offset", "Q", False, "long messages, client to engine; the engine's own lie right behind (ARENAS)"),
    ("arena_size", "Q", False, "bytes of each arena"),
    ("client_observations", "I", False, "where the client reads them: 0 here, 1 on the GPU alone (DEVICE_ONLY)"),
    ("envs_offset", "Q", False, "words of envs that are stepped on their own, and their control bytes (ENVS)"),
    ("gpu_act_available", "I", False, "1 when there is memory for actions on the GPU"),
    ("gpu_act_mode", "I", False, "as gpu_obs_mode"),
    ("gpu_act_device_id", "I", False, "CUDA device ordinal"),
    ("gpu_act_handle", "64s", False, "cudaIpcMemHandle_t"),
    ("gpu_act_device_uuid", "16s", False, "of the device; zeros: by gpu_act_device_id"),
    ("gpu_act_size", "Q", False, "bytes of the actions on the GPU"),
    ("gpu_act_offset", "Q", False, "bytes from the begin of the allocation that gpu_act_handle opens"),
    ("gpu_act_generation", "I", False, "as gpu_obs_generation; 0: there is none"),
    ("gpu_act_client_generation", "I", False, "of the handle the client has open, with bit 0 set; 0: none"),
    ("gpu_act_seq", "Q", False, "the action_seq whose actions lie on the GPU; those of others lie here"),
    ("gpu_events_generation", "I", False, "of the two events, as gpu_obs_generation; 0: there are none"),
    ("gpu_events_device_id", "I", False, "CUDA device ordinal"),
    ("gpu_events_device_uuid", "16s", False, "of the device"),
    ("gpu_frame_event", "64s", False, "cudaIpcEventHandle_t: the engine's work of a step is done; zeros: no events"),
    ("gpu_client_event", "64s", False, "the client's work of a step is done"),
)
#: The last field of the first extension block: an engine may know no later ones, which then are 0.
_FIRST_LAST = "park_command"

#: Sits on frame_seq's line, so that reading it costs no further cache miss.
_FRAME_STATUS_GAP = 8


def _place(table: tuple[tuple[str, str, bool, str], ...], offset: int) -> tuple[FieldPlace, ...]:
    """Add up the offsets: natural alignment, and a fresh cache line where asked for."""
    places: list[FieldPlace] = []
    for name, code, own_line, meaning in table:
        size = int(code[:-1]) if code.endswith("s") else _SIZES[code]
        alignment = CACHE_LINE if own_line else 1 if code.endswith("s") else size
        offset = -(-offset // alignment) * alignment
        places.append(FieldPlace(name, offset, code, meaning))
        offset += size
    return tuple(places)


SEED_FIELDS = _place(_SEED, 0)
EXTENSION_FIELDS = _place(_EXTENSION, EXTENSION_OFFSET)
_frame_seq = next(f for f in SEED_FIELDS if f.name == "frame_seq")
FRAME_STATUS = FieldPlace(
    "frame_status",
    _frame_seq.offset + _FRAME_STATUS_GAP,
    "I",
    "0 = a frame; else the wire code of the error in the error region (Feature.STATUS)",
)
#: Every header field by name.
FIELDS: dict[str, FieldPlace] = {f.name: f for f in (*SEED_FIELDS, FRAME_STATUS, *EXTENSION_FIELDS)}
EXTENSION_BYTES = EXTENSION_FIELDS[-1].offset // CACHE_LINE * CACHE_LINE + CACHE_LINE - EXTENSION_OFFSET
#: The least `ext_size` that a reader takes.
LEAST_EXTENSION_BYTES = FIELDS[_FIRST_LAST].offset + CACHE_LINE - EXTENSION_OFFSET
assert SEED_FIELDS[-1].offset + 4 <= EXTENSION_OFFSET
assert EXTENSION_OFFSET + EXTENSION_BYTES <= HEADER_BYTES


def dtype_code(name: str) -> int:
    """Return the wire code of a dtype."""
    from lucky_transport.spec.array_spec import DTYPES  # brings NumPy, which finding and naming segments does not need

    return DTYPES.index(name)


class Region(NamedTuple):
    """One region: bytes from `offset` to `offset + size`."""

    name: str
    offset: int
    size: int


@dataclass(frozen=True, slots=True)
class SegmentLayout:
    """The regions of one segment by name, in their order on the wire, and its total size in bytes.

    observation_slots: how many times the observations region holds a frame's observations, one behind the other, each
    at the next 64-byte boundary. arena_bytes: of each of the two arenas at `arena_offset`, 0 without any.
    """

    regions: dict[str, Region]
    total_size: int
    observation_slots: int = 1
    arena_offset: int = 0
    arena_bytes: int = 0

    @property
    def file_bytes(self) -> int:
        """Bytes of the segment's file."""
        return self.arena_offset + 2 * self.arena_bytes if self.arena_bytes else self.total_size

    def slot_offset(self, slot: int) -> int:
        """Return where the observations of a slot lie."""
        region = self.regions["observations"]
        return region.offset + slot * _aligned(region.size) // self.observation_slots

    @property
    def has_env_words(self) -> bool:
        """True where envs can be stepped on their own."""
        return "envs" in self.regions and self.regions["envs"].size > 0

    def __getitem__(self, name: str) -> Region:
        return self.regions[name]


def plan(
    spec: BatchSpec,
    *,
    ring_bytes: int = DEFAULT_RING_BYTES,
    image_bytes: int = 0,
    observation_slots: int = 1,
    arena_bytes: int = 0,
    envs_alone: bool = False,
) -> SegmentLayout:
    """Return the layout of a segment for `spec`; `envs_alone`: with the words of envs that are stepped on their own.

    Raises SpecError when `ring_bytes` is no power of two of at least 4096, or `observation_slots` is not from 1 to 64.
    """
    if not 1 <= observation_slots <= MOST_SLOTS:
        raise SpecError(f"{observation_slots} observation slots: expected from 1 to {MOST_SLOTS}")
    if ring_bytes < 4096 or ring_bytes & (ring_bytes - 1):
        raise SpecError(f"ring of {ring_bytes} bytes: expected a power of two, at least 4096")
    n = spec.num_envs
    frame_bytes = n * spec.observation.size * spec.observation.itemsize_bytes
    sizes = (
        ("observations", frame_bytes if observation_slots == 1 else observation_slots * _aligned(frame_bytes)),
        ("actions", n * spec.action.size * spec.action.itemsize_bytes),
        ("rewards", n * 4),
        ("terminated", n),
        ("truncated", n),
        ("control", n),
        ("signals", spec.num_terms * n * 4),
        ("ring_s2c", RING_HEAD_BYTES + ring_bytes),
        ("ring_c2s", RING_HEAD_BYTES + ring_bytes),
        ("images", image_bytes),
        ("spec", len(spec.to_json().encode())),
        ("error", ERROR_BYTES),
        ("envs", ENV_WORDS_HEAD + 13 * n if envs_alone else 0),
    )
    regions: dict[str, Region] = {}
    offset = HEADER_BYTES
    for name, size in sizes:
        regions[name] = Region(name, offset, size)
        offset = _aligned(offset + size)
    arena_offset = -(-offset // PAGE) * PAGE if arena_bytes else 0
    return SegmentLayout(regions, offset, observation_slots, arena_offset, arena_bytes)


def _aligned(size: int) -> int:
    return -(-size // REGION_ALIGNMENT) * REGION_ALIGNMENT
