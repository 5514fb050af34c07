"""Firestore's clients, GAPIC ones, also for asyncio: commits, reads as a stream and a transaction, against a fake."""

import asyncio
import os
from contextlib import contextmanager

import grpc
from google.api_core.exceptions import AlreadyExists
from google.cloud import firestore
from google.cloud.firestore_v1 import types


class Fake:
    """Documents in a dict; every tenth read is answered UNAVAILABLE first, which clients try again."""

    def __init__(self):
        self.documents, self.reads = {}, 0

    def commit(self, request, context):
        for write in request.writes:
            is_new = write._pb.current_document.HasField("exists") and not write.current_document.exists
            if is_new and write.update.name in self.documents:
                context.abort(grpc.StatusCode.ALREADY_EXISTS, f"there is {write.update.name.rpartition('/')[2]}")
            self.documents[write.update.name] = write.update
        results = [types.WriteResult() for _ in request.writes]
        return types.CommitResponse(write_results=results, commit_time={"seconds": 7})

    def begin(self, request, context):
        return types.BeginTransactionResponse(transaction=b"one")

    def read(self, request, context):
        self.reads += 1
        if self.reads % 10 == 0:
            context.abort(grpc.StatusCode.UNAVAILABLE, "try again")
        for name in request.documents:
            answer = types.BatchGetDocumentsResponse(read_time={"seconds": 7})
            if name in self.documents:
                answer.found = self.documents[name]
            else:
                answer.missing = name
            yield answer

    def query(self, request, context):
        for document in sorted(self.documents.values(), key=lambda one: one.name):
            yield types.RunQueryResponse(document=document, read_time={"seconds": 7})


def register(server):
    """Serve the fake."""
    fake, unary, many = Fake(), grpc.unary_unary_rpc_method_handler, grpc.unary_stream_rpc_method_handler
    rows = [
        ("Commit", unary, fake.commit, types.CommitRequest, types.CommitResponse),
        ("BeginTransaction", unary, fake.begin, types.BeginTransactionRequest, types.BeginTransactionResponse),
        ("BatchGetDocuments", many, fake.read, types.BatchGetDocumentsRequest, types.BatchGetDocumentsResponse),
        ("RunQuery", many, fake.query, types.RunQueryRequest, types.RunQueryResponse),
    ]
    handlers = {name: make(call, asked.deserialize, answer.serialize) for name, make, call, asked, answer in rows}
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("google.firestore.v1.Firestore", handlers),))


@contextmanager
def client(port):
    """Write and read, as a program does against the emulator."""
    os.environ["FIRESTORE_EMULATOR_HOST"] = f"127.0.0.1:{port}"
    database = firestore.Client(project="lab")
    arm = database.collection("robots").document("arm")

    def write(number=1):
        arm.set({"joints": [0.5, number], "name": "arm", "at": {"x": number}})

    def read():
        return arm.get().to_dict()

    def refused():
        try:
            arm.create({})
        except AlreadyExists as error:
            return error.message

    @firestore.transactional
    def moved(transaction):
        seen = arm.get(transaction=transaction).to_dict()
        transaction.set(database.collection("robots").document("leg"), {"seen": seen["name"]})
        return seen["at"]

    async def ask():
        other = firestore.AsyncClient(project="lab")
        found = await asyncio.gather(*(other.document(f"robots/{name}").get() for name in ("arm", "leg", "none")))
        return [[one.id, one.exists, one.to_dict()] for one in found]

    def equal():
        write(3)
        return {
            "read": [read() for _ in range(20)],
            "refused": refused(),
            "moved": moved(database.transaction()),
            "all": [[one.id, one.to_dict()] for one in database.collection("robots").stream()],
            "asyncio": asyncio.run(ask()),
        }

    yield equal, read, write
