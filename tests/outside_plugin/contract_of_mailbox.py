"""The outside plugin's own test file, as its authors would write it; run by `test_outside_plugin.py`."""

from lucky_transport.testing.contract import TransportContract


class TestMailbox(TransportContract):
    endpoint = "mailbox://{name}"
