"""Found by `import grpc` where a launcher's sitecustomize hides the one beside this: runs that one and imports grpc."""

import importlib
import os
import runpy
import sys

_hook = runpy.run_path(os.path.join(os.path.dirname(os.path.abspath(__file__)), "sitecustomize.py"))
_hook["begin"]()
_hook["leave_path"]()
del sys.modules["grpc"]
importlib.import_module("grpc")  # whoever imports this module gets that one
