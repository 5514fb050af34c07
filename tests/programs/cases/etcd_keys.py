"""etcd3: keys, a transaction and a watch, against a fake of etcd's key-value and watch services."""

import queue
from contextlib import contextmanager

import etcd3
import grpc
from etcd3 import etcdrpc
from etcd3.etcdrpc import kv_pb2


class Fake(etcdrpc.KVServicer, etcdrpc.WatchServicer):
    """Keys in a dict, and a watch of one prefix."""

    def __init__(self):
        self.keys, self.revision, self.changes = {}, 0, queue.Queue()

    def Put(self, request, context):
        if request.key == b"forbidden":
            context.abort(grpc.StatusCode.FAILED_PRECONDITION, "etcdserver: no")
        self.revision += 1
        kept = self.keys.setdefault(request.key, kv_pb2.KeyValue(key=request.key, create_revision=self.revision))
        kept.value, kept.mod_revision, kept.version = request.value, self.revision, kept.version + 1
        self.changes.put(kv_pb2.Event(type=0, kv=kept))
        return etcdrpc.PutResponse(header={"revision": self.revision})

    def Range(self, request, context):
        last = request.range_end or request.key + b"\0"
        found = [one for key, one in sorted(self.keys.items()) if request.key <= key < last]
        return etcdrpc.RangeResponse(header={"revision": self.revision}, kvs=found, count=len(found))

    def Watch(self, requests, context):
        asked = next(requests).create_request
        yield etcdrpc.WatchResponse(watch_id=1, created=True)
        while context.is_active():
            try:
                changed = self.changes.get(timeout=0.1)
            except queue.Empty:
                continue
            if changed.kv.key.startswith(asked.key):
                yield etcdrpc.WatchResponse(watch_id=1, events=[changed])


def register(server):
    """Serve the fake."""
    fake = Fake()
    etcdrpc.add_KVServicer_to_server(fake, server)
    etcdrpc.add_WatchServicer_to_server(fake, server)


@contextmanager
def client(port):
    """Put, get and watch."""
    asking = etcd3.client("127.0.0.1", port, timeout=60)

    def get():
        return asking.get("/robots/arm")[0]

    def put():
        asking.put("/robots/arm", "reach")

    def refused():
        try:
            asking.put("forbidden", "x")
        except etcd3.exceptions.PreconditionFailedError as error:
            return type(error).__name__

    def watched():
        events, cancel = asking.watch_prefix("/robots/")
        for number in range(20):
            asking.put(f"/robots/{number}", f"at {number}")
            asking.put("/other", "x")
        seen = []
        for event in events:
            seen.append([event.key.decode(), event.value.decode(), event.version])
            if len(seen) == 20:
                cancel()
        return seen

    def equal():
        seen = watched()
        put()
        kept = [[value.decode(), kept.key.decode(), kept.version] for value, kept in asking.get_prefix("/robots/")]
        return {"watched": seen, "kept": kept, "missing": asking.get("/none")[0], "refused": refused()}

    yield equal, get, put
    asking.close()
