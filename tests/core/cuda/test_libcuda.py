"""The binding of `libcuda.so.1`, against a small library with its functions: no machine of the tests has a GPU."""

import ctypes
from pathlib import Path

import numpy as np
import pytest

from lucky_transport.cuda import libcuda
from lucky_transport.cuda.driver import Device, DeviceCopy, find_device
from lucky_transport.cuda.libcuda import CudaDriver
from lucky_transport.errors import DeviceError
from tests.core.test_fork import in_a_child
from tests.support.allocating_driver import AllocatingDriver
from tests.support.build_once import stub_library


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    return stub_library(tmp_path_factory)


@pytest.fixture
def stub(library: str) -> ctypes.CDLL:
    stub = ctypes.CDLL(library)
    for name in ("stub_result", "stub_registered", "stub_opened", "stub_contexts", "stub_events"):
        ctypes.c_int.in_dll(stub, name).value = 0
    (ctypes.c_char * 16).in_dll(stub, "stub_order").value = bytes(16)
    return stub


@pytest.fixture
def cuda(library: str, stub: ctypes.CDLL) -> CudaDriver:
    return CudaDriver(library)


def number(stub: ctypes.CDLL, name: str) -> int:
    return ctypes.c_int.in_dll(stub, name).value


def test_it_names_its_version_and_its_devices(cuda: CudaDriver) -> None:
    assert cuda.version == "12.4"
    assert cuda.devices() == (
        Device(0, bytes([0]) + bytes([10] * 15), "first"),
        Device(1, bytes([0]) + bytes([11] * 15), "second"),
    )


def test_pages_are_locked_and_unlocked_in_the_devices_primary_context(cuda: CudaDriver, stub: ctypes.CDLL) -> None:
    cuda.register(4096, 8192, 1)
    assert number(stub, "stub_registered") == 1
    cuda.unregister(4096, 1)
    assert number(stub, "stub_registered") == 0
    assert number(stub, "stub_contexts") == 1  # retained once


def test_memory_is_exported_with_its_offset_and_opened_by_its_handle(library: str, stub: ctypes.CDLL) -> None:
    owner = AllocatingDriver(library, ordinal=1)
    begin = owner.allocate(4096)
    sent, received = np.arange(24, dtype=np.float32), np.zeros(24, np.float32)
    owner.write(begin + 96, sent)
    exported = owner.export(begin + 96)
    assert (exported.offset, exported.device.ordinal, len(exported.handle)) == (96, 1, 64)
    opened = owner.open(exported.handle, 1)
    assert opened.size_bytes == 4096
    owner.read(received, opened.pointer + exported.offset)
    np.testing.assert_array_equal(received, sent)
    assert number(stub, "stub_opened") == 1
    owner.close(opened.pointer, 1)
    assert number(stub, "stub_opened") == 0
    owner.free(begin)
    with pytest.raises(DeviceError, match="cuPointerGetAttribute failed"):
        owner.export(begin)


def queued(stub: ctypes.CDLL) -> tuple[bytes, int]:
    """Return what was queued, in its order, and the stream of the last."""
    stream = ctypes.c_uint64.in_dll(stub, "stub_queued").value
    return (ctypes.c_char * 16).in_dll(stub, "stub_order").value, stream


def test_an_event_is_made_for_another_process_opened_there_and_closed(cuda: CudaDriver, stub: ctypes.CDLL) -> None:
    made = cuda.make_event(0)
    assert len(made.handle) == 64
    opened = cuda.open_event(made.handle, 1)
    assert number(stub, "stub_events") == 2
    for event, ordinal in ((opened, 1), (made.event, 0)):
        cuda.close_event(event, ordinal)
    assert number(stub, "stub_events") == 0
    with pytest.raises(DeviceError, match="cuIpcOpenEventHandle failed: CUDA_ERROR_INVALID_HANDLE"):
        cuda.open_event(bytes(64), 0)


def test_a_stream_waits_then_copies_then_records(library: str, cuda: CudaDriver, stub: ctypes.CDLL) -> None:
    owner, event = AllocatingDriver(library), cuda.make_event(0).event
    begin = owner.allocate(4096)
    sent, received = np.arange(6, dtype=np.float32), np.zeros(6, np.float32)
    owner.write(begin + 96, sent)
    cuda.enqueue(7, 0, (event, event), DeviceCopy(begin, begin + 96, sent.nbytes), event)
    assert queued(stub) == (b"wwcr", 7)
    owner.read(received, begin)
    np.testing.assert_array_equal(received, sent)
    cuda.synchronize(0, 0)  # the default stream
    assert queued(stub) == (b"wwcrs", 0)


def test_an_event_is_done_or_not_yet_or_says_what_went_wrong(cuda: CudaDriver, stub: ctypes.CDLL) -> None:
    event, result = cuda.make_event(0).event, ctypes.c_int.in_dll(stub, "stub_result")
    assert cuda.is_done(event, 0)
    result.value = 600  # CUDA_ERROR_NOT_READY
    assert not cuda.is_done(event, 0)
    result.value = 700
    with pytest.raises(DeviceError, match="cuEventQuery failed"):
        cuda.is_done(event, 0)


def test_memory_names_its_device(library: str, cuda: CudaDriver) -> None:
    assert cuda.ordinal_of(AllocatingDriver(library, ordinal=1).allocate(64)) == 1


def test_an_error_has_the_drivers_name_and_text(cuda: CudaDriver) -> None:
    with pytest.raises(
        DeviceError, match=r"cuIpcOpenMemHandle_v2 failed: CUDA_ERROR_INVALID_HANDLE \(the stub says so\)"
    ):
        cuda.open(b"\x00" * 64, 0)


def test_what_ends_after_the_driver_ends_in_silence(cuda: CudaDriver, stub: ctypes.CDLL) -> None:
    cuda.register(4096, 8192, 0)
    ctypes.c_int.in_dll(stub, "stub_result").value = 4  # CUDA_ERROR_DEINITIALIZED
    cuda.unregister(4096, 0)
    cuda.close(1, 0)
    cuda.close_event(1, 0)
    assert cuda.is_done(1, 0)
    with pytest.raises(DeviceError, match="cuDeviceGet failed"):
        cuda.register(4096, 8192, 1)


def test_without_the_library_the_error_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(DeviceError, match=r"no CUDA driver here.*docker run --gpus all"):
        CudaDriver(str(tmp_path / "libcuda.so.1"))


def test_a_driver_that_does_not_initialise_is_an_error(library: str, stub: ctypes.CDLL) -> None:
    ctypes.c_int.in_dll(stub, "stub_result").value = 100
    with pytest.raises(DeviceError, match="cuInit failed"):
        CudaDriver(library)


def test_it_is_loaded_once_and_in_no_child(library: str, stub: ctypes.CDLL, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libcuda, "LIBRARY", library)
    libcuda.forget_driver()
    try:
        assert libcuda.load_driver() is libcuda.load_driver()

        def is_refused() -> bool:
            with pytest.raises(DeviceError, match="spawn"):
                libcuda.load_driver()
            return True

        assert in_a_child(is_refused)
    finally:
        libcuda.forget_driver()


def test_a_device_is_found_by_its_uuid_and_by_its_number_only_without_one() -> None:
    devices = (Device(0, b"a" * 16, "one"), Device(1, b"b" * 16, "other"))
    assert find_device(devices, b"b" * 16, 0) is devices[1]
    assert find_device(devices, b"c" * 16, 0) is None
    assert find_device(devices, bytes(16), 1) is devices[1]
    assert find_device(devices, bytes(16), 2) is None
