"""A short fuzz of rings: the long one is `python -m tests.endurance.fuzz rings --rounds 1000000`."""

from tests.endurance.fuzz_rings import RingFuzz


def test_no_image_and_no_scribbling_peer_leads_astray() -> None:
    fuzz = RingFuzz(seed=1)
    fuzz.run(5000)
    images = {what: count for what, count in fuzz.seen.items() if not what.startswith("scribbled")}
    assert sum(images.values()) == 5000
    assert images["None"] > 100  # read to its end
    assert images["ring record"] > 100  # refused for a record
    assert images["ring positions"] > 100  # refused for a position
    assert sum(count for what, count in fuzz.seen.items() if what.startswith("scribbled")) > 100
