"""A gRPC server as a team writes one: python server.py --port 50071. It imports nothing of ours.

It says `weather serves port N` when it does. --calls FILE: gets one line, the method, of each call that came in.
--fault NAME: one answer is wrong for each caller through shared memory, which is how a difference is planted.
"""

import argparse
import concurrent.futures
import threading
import time

import grpc
import weather_pb2
import weather_pb2_grpc

MOST_DAYS = 14

FAULTS = ("value", "int64", "details", "late", "cancellation", "deadline")


class Weather(weather_pb2_grpc.WeatherServicer):
    def __init__(self, fault="", calls=None):
        self.fault = fault
        self.calls = calls
        self.offsets = {}
        self.watchers = self.left = 0
        self.lock = threading.Condition()

    def began(self, context, method):
        """Note the call, and return the fault that its caller meets."""
        with self.lock:
            if self.calls:
                self.calls.write(method + "\n")
                self.calls.flush()
        over_shm = type(context).__init__.__module__.startswith("lucky_transport")  # its peer reads as over TCP
        fault = self.fault if over_shm else ""
        context.send_initial_metadata((("weather-version", "1"),))
        if fault == "late":
            time.sleep(2.0)
        return fault

    def check(self, request, context, fault):
        context.set_trailing_metadata((("weather-days", str(request.days)),))
        if request.station == "nowhere":
            text = "no such station" if fault == "details" else f"no station {request.station!r}"
            context.abort(grpc.StatusCode.NOT_FOUND, text)
        if request.days > MOST_DAYS:
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"days = {request.days}: at most {MOST_DAYS}")

    def forecast(self, request, day, fault):
        forecast = weather_pb2.Forecast(station=request.station, day=day, issued_ns=2**62 + day, chance=0.0)
        forecast.reading.CopyFrom(request.like)
        with self.lock:
            offset = self.offsets.get(request.station, 0.0)
        forecast.reading.temperature += offset + day + len(request.station)
        forecast.sky = weather_pb2.Sky.Value(("CLEAR", "RAIN", "SNOW")[day % 3])
        forecast.normals["high"] = 21.5
        forecast.normals["low"] = 11.25
        if day % 2:
            forecast.storm = "from the west"
        else:
            forecast.frost_level = day
        if fault == "value":
            forecast.reading.temperature += 1.0
        elif fault == "int64":
            forecast.issued_ns += 1
        return forecast

    def GetForecast(self, request, context):
        fault = self.began(context, "GetForecast")
        self.check(request, context, fault)
        forecast = self.forecast(request, 0, fault)
        if request.station == "deadline":  # says whether its caller has one
            left_s = None if fault == "deadline" else context.time_remaining()
            forecast.storm = "no deadline" if left_s is None or left_s > 1e6 else "a deadline"
        elif request.station == "left":  # says how many left `WatchForecast` of "forever"
            with self.lock:
                self.lock.wait_for(lambda: not self.watchers, 60)
                forecast.issued_ns = self.left
        return forecast

    def SetStation(self, request, context):
        self.began(context, "SetStation")
        with self.lock:
            self.offsets[request.name] = self.offsets.get(request.name, 0.0) + request.offset
            return weather_pb2.Station(name=request.name, offset=self.offsets[request.name])

    def PutStation(self, request, context):
        self.began(context, "PutStation")
        with self.lock:
            self.offsets[request.name] = request.offset
        return request

    def WatchForecast(self, request, context):
        fault = self.began(context, "WatchForecast")
        over = self.watched(context, fault) if request.station == "forever" else None
        self.check(request, context, fault)
        for day in range(request.days):
            yield self.forecast(request, day, fault)
        if over is not None:
            over.wait(60)

    def watched(self, context, fault):
        """Return an event for when the call is over, which is counted."""
        over = threading.Event()

        def left():
            with self.lock:
                self.watchers -= 1
                self.left += fault != "cancellation"
                self.lock.notify_all()
            over.set()

        with self.lock:
            self.watchers += 1
        assert context.add_callback(left)
        return over

    def Report(self, request_iterator, context):
        self.began(context, "Report")
        readings = [reading.temperature for reading in request_iterator]
        return weather_pb2.Summary(readings=len(readings), mean=sum(readings) / max(1, len(readings)))

    def Chat(self, request_iterator, context):
        self.began(context, "Chat")
        for line in request_iterator:
            if line.text == "leave":
                context.abort(grpc.StatusCode.ABORTED, f"left at line {line.number}")
            yield weather_pb2.Line(text=line.text.upper(), number=line.number + 1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--fault", choices=FAULTS, default="")
    parser.add_argument("--calls", type=argparse.FileType("a"))
    parser.add_argument("--reflection", action="store_true")
    options = parser.parse_args()
    server = grpc.server(concurrent.futures.ThreadPoolExecutor(8))
    weather_pb2_grpc.add_WeatherServicer_to_server(Weather(options.fault, options.calls), server)
    if options.reflection:
        from grpc_reflection.v1alpha import reflection

        names = (weather_pb2.DESCRIPTOR.services_by_name["Weather"].full_name, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, server)
    port = server.add_insecure_port(f"127.0.0.1:{options.port}")
    server.start()
    print(f"weather serves port {port}", flush=True)
    server.wait_for_termination()


if __name__ == "__main__":
    main()
