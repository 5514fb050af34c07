"""What travels beside the messages: the keys of our call metadata."""

from __future__ import annotations

# Wire format: keys are only added, and README.md tells what each means. A client or engine that does not know them
# ignores them, as gRPC demands, so none of them changes the legacy protocol.

Metadata = tuple[tuple[str, str], ...]

#: Who calls: one value per client. Without it the server knows a client by its address.
CLIENT = "lucky-client"
#: "1": this Step follows a ResetAgent and only asks for the observation it led to.
AFTER_RESET = "lucky-reset"
#: Number of this client's exchange; a call with the number of the last one is answered again, not done again.
SEQ = "lucky-seq"
#: "all": Step responses carry every reward and termination term, whatever was negotiated.
TERMS = "lucky-terms"
ALL_TERMS = ((TERMS, "all"),)
#: Trailing, on an error: the wire code and the whole text of one of our errors.
ERROR = "lucky-error-bin"
#: Trailing, at the end of a stream: how many items the engine skipped.
DROPPED = "lucky-dropped"
