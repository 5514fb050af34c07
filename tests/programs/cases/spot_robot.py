"""Spot's SDK: a fake robot of bosdyn-api's servicers behind TLS, with the token of its user at each call."""

import tempfile
from contextlib import contextmanager
from pathlib import Path

import bosdyn.client
import grpc
from bosdyn.api import (
    auth_pb2,
    auth_service_pb2_grpc,
    directory_pb2,
    directory_service_pb2_grpc,
    robot_id_pb2,
    robot_id_service_pb2_grpc,
    robot_state_pb2,
    robot_state_service_pb2_grpc,
)
from bosdyn.client.exceptions import RpcError
from bosdyn.client.robot_state import RobotStateClient, RobotStateStreamingClient
from serving import serving

_TOKEN = "e30.eyJleHAiOiA0MTAyNDQ0ODAwfQ."  # without a signature, good until 2100
_KEY = b"""\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg2VvnnYJkzHjA0/IE
YcQKxzdE42ScQvVlpPoJ3eCWmMShRANCAAQGY0g0nfpMEiPfDu9skHMKkrJ/QNXF
uZqu/pKUQME1doKR3tZsl7n0gVNwe48EexnRY5/bXbO9aXFlMYWw7x7L
-----END PRIVATE KEY-----
"""
_CERTIFICATE = b"""\
-----BEGIN CERTIFICATE-----
MIIBljCCAT2gAwIBAgIUaNvgfGB2ZETM1DPbNlpxuu5to80wCgYIKoZIzj0EAwIw
EDEOMAwGA1UEAwwFcm9ib3QwIBcNMjYxMTI3MDkwNjM4WhgPMjEyNjExMDMwOTA2
MzhaMBAxDjAMBgNVBAMMBXJvYm90MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE
BmNINJ36TBIj3w7vbJBzCpKyf0DVxbmarv6SlEDBNXaCkd7WbJe59IFTcHuPBHsZ
0WOf212zvWlxZTGFsO8ey6NzMHEwHQYDVR0OBBYEFHT4mV788giGR4LgVvQqxMec
bj/RMB8GA1UdIwQYMBaAFHT4mV788giGR4LgVvQqxMecbj/RMA8GA1UdEwEB/wQF
MAMBAf8wHgYDVR0RBBcwFYIMKi5zcG90LnJvYm90ggVyb2JvdDAKBggqhkjOPQQD
AgNHADBEAiBu2j0K3p4ePoYTA7+6kgq5XPn09gKUpVDwnNX+k/LqWwIgKnAnAbCb
QcULD/4EkzAgsJS+SbqgRNe4lbYx3zjxJF0=
-----END CERTIFICATE-----
"""


class Robot(
    auth_service_pb2_grpc.AuthServiceServicer,
    directory_service_pb2_grpc.DirectoryServiceServicer,
    robot_id_service_pb2_grpc.RobotIdServiceServicer,
    robot_state_service_pb2_grpc.RobotStateServiceServicer,
    robot_state_service_pb2_grpc.RobotStateStreamingServiceServicer,
):
    """Twelve joints that move with each question."""

    asked = 0

    def GetAuthToken(self, request, context):
        answer = auth_pb2.GetAuthTokenResponse(header=_header(request), status=2)
        if request.password == "right":
            answer.status, answer.token = 1, _TOKEN
        return answer

    def ListServiceEntries(self, request, context):
        entries = [
            directory_pb2.ServiceEntry(
                name=one.default_service_name, type=one.service_type, authority="state.spot.robot"
            )
            for one in (RobotStateClient, RobotStateStreamingClient)
        ]
        return directory_pb2.ListServiceEntriesResponse(header=_header(request), service_entries=entries)

    def GetRobotId(self, request, context):
        found = robot_id_pb2.RobotId(serial_number="spot-1", species="spot", nickname="fake")
        return robot_id_pb2.RobotIdResponse(header=_header(request), robot_id=found)

    def GetRobotState(self, request, context):
        if dict(context.invocation_metadata()).get("authorization") != f"Bearer {_TOKEN}":
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "no token")
        self.asked += 1
        answer = robot_state_pb2.RobotStateResponse(header=_header(request))
        for joint in range(12):
            state = answer.robot_state.kinematic_state.joint_states.add(name=f"joint{joint}")
            state.position.value = self.asked + joint / 100
        return answer

    def GetRobotMetrics(self, request, context):
        context.abort(grpc.StatusCode.PERMISSION_DENIED, "no metrics for you")

    def GetRobotStateStream(self, request, context):
        for number in range(50):
            yield robot_state_pb2.RobotStateStreamResponse(joint_states={"position": [number + 0.5] * 19})


def _header(request):
    header = request.header.__class__.DESCRIPTOR.file.message_types_by_name["ResponseHeader"]._concrete_class()
    header.request_header.CopyFrom(request.header)
    header.error.code = 1
    return header


@contextmanager
def server(port):
    """Serve the robot."""
    robot = Robot()
    register = [
        lambda server: auth_service_pb2_grpc.add_AuthServiceServicer_to_server(robot, server),
        lambda server: directory_service_pb2_grpc.add_DirectoryServiceServicer_to_server(robot, server),
        lambda server: robot_id_service_pb2_grpc.add_RobotIdServiceServicer_to_server(robot, server),
        lambda server: robot_state_service_pb2_grpc.add_RobotStateServiceServicer_to_server(robot, server),
        lambda server: robot_state_service_pb2_grpc.add_RobotStateStreamingServiceServicer_to_server(robot, server),
    ]
    with serving(port, *register, credentials=grpc.ssl_server_credentials([(_KEY, _CERTIFICATE)])):
        yield


@contextmanager
def client(port):
    """Log in as a user does, and read the robot's state."""
    sdk = bosdyn.client.create_standard_sdk("program", [RobotStateStreamingClient])
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "robot.pem").write_bytes(_CERTIFICATE)
        sdk.load_robot_cert(f"{folder}/*.pem")
    robot = sdk.create_robot("127.0.0.1")
    robot.update_secure_channel_port(port)

    def raised(call):
        try:
            return str(call())
        except (RpcError, bosdyn.client.ResponseError) as error:
            return type(error).__name__

    wrong = raised(lambda: robot.authenticate("user", "wrong"))
    unknown = robot.get_id().nickname
    robot.authenticate("user", "right")
    state = robot.ensure_client(RobotStateClient.default_service_name)
    stream = robot.ensure_client(RobotStateStreamingClient.default_service_name)

    def positions():
        return [joint.position.value for joint in state.get_robot_state().kinematic_state.joint_states]

    def equal():
        return {
            "wrong password": wrong,
            "name": unknown,
            "positions": [positions() for _ in range(50)],
            "asynchronous": state.get_robot_state_async().result().kinematic_state.joint_states[3].position.value,
            "refused": raised(state.get_robot_metrics),
            "missing": raised(lambda: state.get_robot_link_model("body")),
            "stream": [list(one.joint_states.position)[:2] for one in stream.get_robot_state_stream()],
        }

    yield equal, positions, positions
