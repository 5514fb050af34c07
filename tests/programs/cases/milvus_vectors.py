"""Milvus' client, also for asyncio, and a fake of its service that is busy at times and finds the largest vectors."""

import asyncio
import queue
import re
from collections import Counter
from contextlib import contextmanager

import grpc
from pymilvus import AsyncMilvusClient, DataType, MilvusClient, MilvusException
from pymilvus.grpc_gen import common_pb2, milvus_pb2, milvus_pb2_grpc, schema_pb2


class Fake(milvus_pb2_grpc.MilvusServiceServicer):
    """Collections of vectors; `Delete` is busy twice, `Flush` always; an answer refuses a search of "none"."""

    def __init__(self):
        self.schemas, self.vectors, self.calls, self.seen = {}, {}, Counter(), {}

    def Connect(self, request, context):
        return milvus_pb2.ConnectResponse(identifier=7, server_info={"build_tags": "3.0.0"})

    def GetVersion(self, request, context):
        asked = dict(context.invocation_metadata())
        return milvus_pb2.GetVersionResponse(version=f"{asked['authorization']} {asked['identifier']}")

    def CreateCollection(self, request, context):
        self.schemas[request.collection_name] = schema_pb2.CollectionSchema.FromString(request.schema)
        self.vectors[request.collection_name] = {}
        return common_pb2.Status()

    def DescribeCollection(self, request, context):
        name = request.collection_name
        return milvus_pb2.DescribeCollectionResponse(collection_name=name, schema=self.schemas[name])

    def Insert(self, request, context):
        given = {field.field_name: field for field in request.fields_data}
        ids, data = given["id"].scalars.long_data.data, given["vector"].vectors.float_vector.data
        for place, one in enumerate(ids):
            self.vectors[request.collection_name][one] = data[4 * place]
        stored = schema_pb2.IDs(int_id=schema_pb2.LongArray(data=ids))
        return milvus_pb2.MutationResult(IDs=stored, insert_cnt=len(ids), timestamp=len(ids))

    def Search(self, request, context):
        if request.collection_name not in self.vectors:
            refused = common_pb2.Status(code=100, reason=f"can't find collection[{request.collection_name}]")
            return milvus_pb2.SearchResults(status=refused)
        found = sorted(self.vectors[request.collection_name].items(), key=lambda pair: -pair[1])[:3]
        ids = schema_pb2.IDs(int_id=schema_pb2.LongArray(data=[one for one, _ in found]))
        scores = [score for _, score in found]
        data = schema_pb2.SearchResultData(num_queries=1, top_k=3, ids=ids, scores=scores, topks=[len(found)])
        return milvus_pb2.SearchResults(results=data, collection_name=request.collection_name)

    def Delete(self, request, context):
        self.calls["Delete"] += 1
        if self.calls["Delete"] % 3:
            context.abort(grpc.StatusCode.UNAVAILABLE, "busy")
        return milvus_pb2.MutationResult(delete_cnt=self.calls["Delete"])

    def Flush(self, request, context):
        context.abort(grpc.StatusCode.UNAVAILABLE, "always busy")


def register(server):
    """Serve the fake."""
    milvus_pb2_grpc.add_MilvusServiceServicer_to_server(Fake(), server)


#: How often a call below is answered UNAVAILABLE: the client then makes a new channel, and takes its callbacks there.
_UNAVAILABLE = 6

_ROWS = [{"id": number, "vector": [number / 7, 1.0, 2.0, 3.0]} for number in range(100)]


async def _ask(where):
    asking = AsyncMilvusClient(**where)
    inserted = await asking.insert("places", _ROWS[:10])
    found = await asyncio.gather(*(asking.search("places", [[1.0] * 4], limit=3) for _ in range(20)))
    refused = []
    for begun in (asking.search("none", [[1.0] * 4], limit=3), asking.flush("places", retry_times=3)):
        try:
            await begun
        except MilvusException as error:
            refused.append(_told(error))
    await asking.close()
    return list(inserted["ids"]), [_plain(one) for one in found], refused


def _told(error):
    return [str(error.code), re.sub(r"127.0.0.1:\d+", "HERE", error.message)]


def _plain(found):
    return [[dict(hit) for hit in hits] for hits in found]


@contextmanager
def client(port):
    """Insert vectors and search them."""
    where = {"uri": f"http://127.0.0.1:{port}", "token": "someone:secret"}
    asking = MilvusClient(**where)
    handler = asking._get_connection()
    schema = asking.create_schema()
    schema.add_field("id", DataType.INT64, is_primary=True)
    schema.add_field("vector", DataType.FLOAT_VECTOR, dim=4)
    asking.create_collection("places", schema=schema)

    def insert():
        return list(asking.insert("places", _ROWS)["ids"])

    def search(name="places", **options):
        return asking.search(name, [[1.0] * 4], limit=3, **options)

    def refused(function, *arguments, **options):
        try:
            function(*arguments, **options)
        except MilvusException as error:
            return _told(error)

    def equal():
        states, told = queue.SimpleQueue(), []
        handler.register_state_change_callback(lambda state: states.put(state.name))
        inserted = insert()
        future = search(_async=True, _callback=lambda found: told.append(_plain(found)))
        return {
            "inserted": inserted,
            "found": _plain(search()),
            "future": [_plain(future.result()), told],
            "version": asking.get_server_version(),
            "deleted": dict(asking.delete("places", ids=[1])),
            "refused": [refused(search, "none"), refused(asking.flush, "places", retry_times=3)],
            "async": asyncio.run(_ask(where)),
            "states": [states.get(timeout=30) for _ in range(1 + _UNAVAILABLE)],
        }

    yield equal, search, insert
    asking.close()
