"""Run by every Python that starts with this folder on PYTHONPATH: switches gRPC as soon as it is imported.

It works in Pythons from 3.8 on, with or without lucky_transport. It costs a start next to nothing: no import of a
package, one entry in sys.meta_path. The sitecustomize that this one hides runs afterwards, and this folder does not
stay on sys.path. Where another sitecustomize hides this one, `import grpc` finds `grpc.py` in this folder, which runs
it. A switch that was asked for and cannot be had ends the process with 78. A child that has no lucky_transport (an
engine's own Python) is left as it is and noted down, to be reported; so is a gRPC of another package. The first
process of a program without the launcher reports for all of them at its end.
"""

import atexit
import os
import sys

#: What sysexits.h calls EX_CONFIG.
_CANNOT_SWITCH = 78

#: What speaks gRPC without the package grpc, so that its calls are neither switched nor counted. The reasons are in
#: lucky_transport/other_grpc.py, which a Python without lucky_transport lacks; a test compares the names.
_OTHERS = (
    *("betterproto", "betterproto2", "connecpy", "connectrpc", "grpclib", "purerpc", "pyarrow.flight", "sonora"),
    *("adbc_driver_flightsql", "courier", "etcd_client", "launchpad", "ray"),
    *("rerun", "reverb", "temporalio", "torch_xla"),
)


class _Finder:
    """Finds grpc as the other finders do, and has it switched once it is imported; others are noted down."""

    def find_spec(self, name, path=None, target=None):
        if name != "grpc" and name not in _OTHERS:
            return None
        leave_path()
        for finder in sys.meta_path:
            find = None if isinstance(finder, _Finder) else getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find else None
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = _Loader(spec.loader)
                return spec
        return None


class _Loader:
    """The loader it was given, up to the moment when the module is imported."""

    def __init__(self, loader):
        self._loader = loader

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def exec_module(self, module):
        module.__loader__ = module.__spec__.loader = self._loader
        if module.__name__ != "grpc":
            _note(f"{module.__name__}.other", module.__name__)
            return self._loader.exec_module(module)
        _mark()
        self._loader.exec_module(module)
        _switch(module)


def _switch(grpc):
    try:
        from lucky_transport_stubs.run.activation import activate

        activate(grpc)
    except Exception as error:
        if isinstance(error, ImportError) and error.name in ("lucky_transport", "lucky_transport_stubs"):
            _absent()
        else:
            _refuse(f"{type(error).__name__}: {error}")


def _refuse(why):
    sys.stderr.write(f"lucky-transport: pid {os.getpid()} cannot be switched: {why}\n")
    raise SystemExit(_CANNOT_SWITCH)


def _absent():
    """Refuse a program whose Python has no lucky_transport; note it down of a child."""
    if os.environ.get("LUCKY_RUN_PARENT") == str(os.getppid()):
        _refuse(f"{sys.executable} has no lucky_transport, pip install it there")
    _note("absent", sys.executable)


def _note(kind, text, then=None):
    """Leave a note for the report, if there is to be one; `then` is called with its descriptor."""
    folder = os.environ.get("LUCKY_RUN_FOLDER")
    try:
        if folder:
            with open(os.path.join(folder, f"{os.getpid()}.{kind}"), "w+") as note:
                note.write(text)
                note.flush()
                if then:
                    then(note.fileno())
    except OSError:
        pass  # the launcher has ended


def _mark():
    """Map a file of the launcher's folder: /proc shows then that this process, and what it forks, is switched."""
    import ctypes
    import mmap

    def keep(mark):
        kept = mmap.mmap(mark, 1, access=mmap.ACCESS_READ)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(kept))  # also while the interpreter ends

    _note("reached", "1", keep)


def _leads():
    return "LUCKY_RUN_FOLDER" in os.environ and os.environ.get("LUCKY_RUN_LEADER") == str(os.getpid())


def _lead():
    """Do for this process and its children what the launcher does where there is one."""
    if _leads():  # it has executed itself anew, and holds its folder still
        atexit.register(_report, os.environ["LUCKY_RUN_FOLDER"], os.getpid())
        return
    os.environ["LUCKY_RUN_PARENT"] = str(os.getppid())
    if os.environ.get("LUCKY_RUN_QUIET"):
        return
    folder = os.path.join(os.environ.get("TMPDIR") or "/tmp", f"lucky-run-{os.urandom(8).hex()}")
    try:
        os.mkdir(folder, 0o700)
    except OSError as error:
        if sys.stderr.isatty() or os.environ.get("LUCKY_RUN_REPORT") == "-":
            sys.stderr.write(f"lucky-transport: pid {os.getpid()}: calls are not counted: {error}\n")
        return
    os.environ["LUCKY_RUN_FOLDER"], os.environ["LUCKY_RUN_LEADER"] = folder, str(os.getpid())
    atexit.register(_report, folder, os.getpid())


def _report(folder, pid):
    if os.getpid() != pid:
        return  # a forked child that ends as a program does
    if os.path.isdir(folder) and all(name.endswith(".reached") for name in os.listdir(folder)):  # there was no call
        import shutil

        shutil.rmtree(folder, ignore_errors=True)
    else:
        from lucky_transport_stubs.run.report import conclude_here

        conclude_here(folder)


def leave_path():
    """Take this folder off sys.path."""
    here = os.path.dirname(os.path.abspath(__file__))
    # Not abspath: it needs a working directory, which may be gone.
    sys.path[:] = [entry for entry in sys.path if os.path.normpath(entry) != here]
    sys.path_importer_cache.pop(here, None)


def _hidden_sitecustomize():
    """Import the sitecustomize that would have been found without this one; its errors are its own, as always."""
    leave_path()
    ours = sys.modules.pop("sitecustomize")
    try:
        import sitecustomize  # noqa: F401
    except ImportError as error:
        if error.name != "sitecustomize":
            raise
    finally:
        sys.modules.setdefault("sitecustomize", ours)


def begin():
    """Have grpc switched when it is imported, where a switch is asked for."""
    if os.environ.get("LUCKY_TRANSPORT"):
        sys.meta_path.insert(0, _Finder())
        if _leads() or not os.environ.get("LUCKY_RUN_PARENT"):
            _lead()


if __name__ == "sitecustomize":
    begin()
    _hidden_sitecustomize()
