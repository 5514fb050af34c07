"""Cloud Pub/Sub's client, a GAPIC one: publish, its retries of UNAVAILABLE, and a streaming pull, against a fake."""

import itertools
import os
import threading
from contextlib import contextmanager

import grpc
from google.api_core.exceptions import NotFound
from serving import serving


class Fake:
    """One topic and one subscription; every tenth Publish is answered UNAVAILABLE first."""

    def __init__(self):
        self.numbers, self.calls = itertools.count(1), itertools.count(1)

    def publish(self, request, context):
        from google.pubsub_v1.types import PublishResponse

        if next(self.calls) % 10 == 0:
            context.abort(grpc.StatusCode.UNAVAILABLE, "try again")
        return PublishResponse(message_ids=[str(next(self.numbers)) for _ in request.messages])

    def get_topic(self, request, context):
        context.abort(grpc.StatusCode.NOT_FOUND, f"no topic {request.topic}")

    def streaming_pull(self, requests, context):
        from google.pubsub_v1.types import StreamingPullResponse

        next(requests)
        for number in range(100):
            received = {"ack_id": str(number), "message": {"data": b"%d" % number, "message_id": str(number)}}
            yield StreamingPullResponse(received_messages=[received])
        for _ in requests:  # acknowledgements and heartbeats
            pass


@contextmanager
def server(port):
    """Serve the fake."""
    from google.pubsub_v1 import types

    fake = Fake()

    def add(server):
        def of(make, function, asked, answered):
            return make(function, asked.deserialize, answered.serialize)

        unary, both = grpc.unary_unary_rpc_method_handler, grpc.stream_stream_rpc_method_handler
        publisher = {
            "Publish": of(unary, fake.publish, types.PublishRequest, types.PublishResponse),
            "GetTopic": of(unary, fake.get_topic, types.GetTopicRequest, types.Topic),
        }
        pull = of(both, fake.streaming_pull, types.StreamingPullRequest, types.StreamingPullResponse)
        server.add_generic_rpc_handlers(
            (
                grpc.method_handlers_generic_handler("google.pubsub.v1.Publisher", publisher),
                grpc.method_handlers_generic_handler("google.pubsub.v1.Subscriber", {"StreamingPull": pull}),
            )
        )

    with serving(port, add):
        yield


@contextmanager
def client(port):
    """Publish and pull, as a program does against the emulator."""
    os.environ["PUBSUB_EMULATOR_HOST"] = f"127.0.0.1:{port}"
    from google.cloud import pubsub_v1

    publisher = pubsub_v1.PublisherClient()
    topic = publisher.topic_path("project", "topic")

    def publish():
        return publisher.publish(topic, b"data", attribute="value").result(60)

    def small():
        try:
            publisher.get_topic(topic=topic, timeout=30)
        except NotFound as error:
            return error.message

    def pulled():
        subscriber, seen, is_done = pubsub_v1.SubscriberClient(), [], threading.Event()

        def take(message):
            seen.append(int(message.data))
            message.ack()
            if len(seen) == 100:
                is_done.set()

        with subscriber:
            future = subscriber.subscribe(subscriber.subscription_path("project", "all"), callback=take)
            assert is_done.wait(60)
            future.cancel()
            future.result(60)
        return sorted(seen)

    def equal():
        return {"ids": [publish() for _ in range(60)], "refused": small(), "pulled": pulled()}

    yield equal, small, publish
    publisher.stop()
