"""NVIDIA Riva's client: speech from text, whole, later and as a stream, and text from speech, against a fake."""

from contextlib import contextmanager

import grpc
import riva.client
from riva.client.proto import riva_asr_pb2, riva_asr_pb2_grpc, riva_tts_pb2, riva_tts_pb2_grpc
from serving import answer_of


class Fake(riva_tts_pb2_grpc.RivaSpeechSynthesisServicer, riva_asr_pb2_grpc.RivaSpeechRecognitionServicer):
    """Speaks by the bytes of a text, and hears how many bytes it is sent."""

    def Synthesize(self, request, context):
        if dict(context.invocation_metadata()).get("user") != "arm":
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "who is this?")
        if not request.text:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, "nothing to say")
        return riva_tts_pb2.SynthesizeSpeechResponse(audio=request.text.encode() * 1000)

    def SynthesizeOnline(self, requests, context):
        for request in requests:
            for number in range(5):
                yield riva_tts_pb2.SynthesizeSpeechResponse(audio=request.text.encode() * number)

    def StreamingRecognize(self, requests, context):
        assert next(requests).streaming_config.config.sample_rate_hertz == 16000
        for number, request in enumerate(requests):
            answer = riva_asr_pb2.StreamingRecognizeResponse()
            answer.results.add(is_final=True).alternatives.add(transcript=f"{number}: {len(request.audio_content)}")
            yield answer


def register(server):
    """Serve the fake."""
    fake = Fake()
    riva_tts_pb2_grpc.add_RivaSpeechSynthesisServicer_to_server(fake, server)
    riva_asr_pb2_grpc.add_RivaSpeechRecognitionServicer_to_server(fake, server)


@contextmanager
def client(port):
    """Speak and listen."""
    auth = riva.client.Auth(uri=f"127.0.0.1:{port}", metadata_args=[["user", "arm"]])
    speaking, hearing = riva.client.SpeechSynthesisService(auth), riva.client.ASRService(auth)
    config = riva.client.StreamingRecognitionConfig(config={"sample_rate_hertz": 16000}, interim_results=True)

    def say(text="reach"):
        return answer_of(lambda: len(speaking.synthesize(text).audio))

    def hear():
        answers = hearing.streaming_response_generator([b"a" * 3200] * 20, config)
        return [one.results[0].alternatives[0].transcript for one in answers]

    def equal():
        later = [speaking.synthesize(f"word {number}", future=True) for number in range(5)]
        return {
            "said": [say(), say("")],
            "later": [one.result().audio[:6].decode() for one in later],
            "streamed": [len(one.audio) for one in speaking.synthesize_online(["go", "stop"])],
            "heard": hear(),
        }

    yield equal, say, hear
