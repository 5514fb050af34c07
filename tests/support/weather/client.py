"""A gRPC client as a team writes one: python client.py --target 127.0.0.1:50071. It imports nothing of ours.

It makes --rounds of calls of every arity and prints one line, `weather total T`, which depends on every answer.
"""

import argparse

import grpc
import weather_pb2
import weather_pb2_grpc

STATIONS = ("Oslo", "Bergen", "Tromsø")


def one_round(stub, number):
    station = STATIONS[number % len(STATIONS)]
    total = 0.0
    like = weather_pb2.Reading(temperature=number / 4, counts={"rounds": number}, notes=["a", "b"], station=station)
    request = weather_pb2.ForecastRequest(station=station, days=3, like=like)
    total += stub.GetForecast(request, metadata=(("team", "weather"),)).reading.temperature
    for forecast in stub.WatchForecast(request):
        total += forecast.reading.temperature + forecast.normals["high"]
    total += stub.SetStation(weather_pb2.Station(name=station, offset=0.5)).offset
    total += stub.PutStation(weather_pb2.Station(name="Rome", offset=number)).offset
    total += stub.Report(weather_pb2.Reading(temperature=one) for one in range(4)).mean
    for line in stub.Chat(weather_pb2.Line(text="hello", number=one) for one in range(3)):
        total += line.number
    try:
        stub.GetForecast(weather_pb2.ForecastRequest(station="nowhere"))
    except grpc.RpcError as error:
        total += len(error.details())
    return total


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--target", default="127.0.0.1:50071")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    with grpc.insecure_channel(options.target) as channel:
        stub = weather_pb2_grpc.WeatherStub(channel)
        total = sum(one_round(stub, number) for number in range(options.rounds))
    print(f"weather total {total}", flush=True)


if __name__ == "__main__":
    main()
