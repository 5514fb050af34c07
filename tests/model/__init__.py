"""A model check of the shared-memory protocols: every interleaving of their atomic steps, under three memory models.

    python -m tests.model --protocol all --order all --mutations

`protocols/` has a step table per protocol, a row for each line of the source; `test_protocols.py` compares the
rows with the source. `explorer.py` runs the tables under the models of `memory_models.py`. A mutation takes out one
release, acquire or fence: a run must find what that breaks, or the row says why the order is kept.

What is checked: no payload is torn or stale, nothing is lost or doubled, positions do not cross, counters do not go
back, a leased slot is not written, no side sleeps while there is work for it.

What is not: a relaxed load never returns a store that comes later than itself (load buffering), in which no value can
come out of thin air. Payload needs no more than that, as its accesses are plain and their races are violations. Relaxed
words are park words, `frame_status` and the looks of a wait: none of them carries data. Nothing dies here, and a peer
keeps the rules (but for the image that an engine writes into a client's slot). A bound says how many records, exchanges
and images there are; every interleaving within it is visited.
"""
