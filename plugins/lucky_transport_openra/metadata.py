"""What our clients say beside the bridge's messages; an engine that does not know us ignores it.

These keys are wire format: they are only added to.
"""

from __future__ import annotations

__all__ = ["LOOK", "SESSION"]

#: On GameSession: the id of the session to be streamed. The original has no word for it.
SESSION = "lucky-session"
#: On FastAdvance: "1": only look, do no tick. The original does at least one.
LOOK = "lucky-look"
