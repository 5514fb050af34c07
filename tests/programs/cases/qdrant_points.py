"""Qdrant's client with prefer_grpc, also for asyncio, and a fake of its service that holds points in a dict."""

import asyncio
from contextlib import contextmanager

import grpc
from qdrant_client import AsyncQdrantClient, QdrantClient, models
from qdrant_client import grpc as protocol
from serving import answer_of


class Fake(protocol.PointsServicer, protocol.CollectionsServicer):
    """One collection of points; a query answers those whose first number is largest."""

    def __init__(self):
        self.points = {}

    def Upsert(self, request, context):
        for point in request.points:
            self.points[point.id.num] = point
        return protocol.PointsOperationResponse(result={"operation_id": len(self.points), "status": 2}, time=0.5)

    def Query(self, request, context):
        found = sorted(self.points.values(), key=lambda one: -_vector(one)[0])[: request.limit]
        scored = [protocol.ScoredPoint(id=one.id, payload=one.payload, score=_vector(one)[0]) for one in found]
        return protocol.QueryResponse(result=scored, time=0.5)

    def Count(self, request, context):
        if request.collection_name != "places":
            context.abort(grpc.StatusCode.NOT_FOUND, f"Collection `{request.collection_name}` does not exist!")
        return protocol.CountResponse(result={"count": len(self.points)})


def _vector(point):
    return list(point.vectors.vector.dense.data) or list(point.vectors.vector.data)


def register(server):
    """Serve the fake."""
    fake = Fake()
    protocol.add_PointsServicer_to_server(fake, server)
    protocol.add_CollectionsServicer_to_server(fake, server)


@contextmanager
def client(port):
    """Store points and query them."""
    where = {"host": "127.0.0.1", "port": 1, "grpc_port": port, "prefer_grpc": True, "check_compatibility": False}
    asking = QdrantClient(**where)

    def upsert():
        points = [models.PointStruct(id=n, vector=[n / 7, 1.0] * 64, payload={"name": f"p{n}"}) for n in range(100)]
        return asking.upsert("places", points).status

    def count(name="places"):
        return answer_of(lambda: asking.count(name).count)

    def query():
        return [one.model_dump(mode="json") for one in asking.query_points("places", [1.0] * 128, limit=5).points]

    async def ask():
        other = AsyncQdrantClient(**where)
        found = await asyncio.gather(*(other.query_points("places", [1.0] * 128, limit=2) for _ in range(5)))
        await other.close()
        return [[point.id for point in one.points] for one in found]

    def equal():
        return {
            "stored": str(upsert()),
            "found": query(),
            "count": [count(), count("none")],
            "async": asyncio.run(ask()),
        }

    yield equal, count, upsert
    asking.close()
