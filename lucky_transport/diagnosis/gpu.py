"""The check of the CUDA driver, which `env.observations_torch("cuda")` and engines with device memory need."""

from __future__ import annotations

from importlib import util

from lucky_transport.cuda import libcuda
from lucky_transport.diagnosis.check import Check, CheckStatus, Roots
from lucky_transport.errors import DeviceError

__all__ = ["cuda_driver"]


def cuda_driver(roots: Roots) -> Check:
    """Whether there is a CUDA driver and which devices it sees; without one everything else works."""
    name = "gpu"
    torch = "PyTorch is installed" if util.find_spec("torch") else "PyTorch is not installed"
    try:
        driver = libcuda.load_driver()
    except DeviceError as error:
        seen = str(error).removesuffix(f"; {error.hint}")
        if not (roots.proc / "driver" / "nvidia").is_dir():
            return Check(name, CheckStatus.OK, f"{seen}: tensors are on the CPU; {torch}")
        return Check(
            name, CheckStatus.WARN, f"{seen}; {torch}", error.hint or "see `nvidia-smi`; 'cpu' needs no driver"
        )
    devices = ", ".join(f"{one.ordinal}: {one.name} ({one.uuid.hex()})" for one in driver.devices())
    return Check(name, CheckStatus.OK, f"CUDA driver for {driver.version}, devices {devices}; {torch}")
