"""Reachy 2's SDK: a fake robot with two arms that streams its state at 100 Hz, read and moved as its users do."""

import time
from contextlib import contextmanager

from google.protobuf.empty_pb2 import Empty
from reachy2_sdk import ReachySDK
from reachy2_sdk_api import arm_pb2_grpc, goto_pb2, goto_pb2_grpc, reachy_pb2, reachy_pb2_grpc
from serving import serving


class Robot(reachy_pb2_grpc.ReachyServiceServicer, goto_pb2_grpc.GoToServiceServicer, arm_pb2_grpc.ArmServiceServicer):
    """An arm goes at once where it is told to."""

    def __init__(self):
        self.goals = {}

    def GetReachy(self, request, context):
        found = reachy_pb2.Reachy()
        found.info.serial_number, found.info.version_hard, found.info.core_mode = "reachy-1", "1.3", 0
        for number, arm in enumerate((found.l_arm, found.r_arm), 1):
            arm.part_id.id, arm.part_id.name = number, ("l_arm", "r_arm")[number - 1]
            arm.description.shoulder.axis_1, arm.description.shoulder.axis_2 = 1, 0
            arm.description.elbow.axis_1, arm.description.elbow.axis_2 = 2, 1
        return found

    def GetReachyState(self, request, context):
        state = reachy_pb2.ReachyState()
        for number, arm in enumerate((state.l_arm_state, state.r_arm_state), 1):
            arm.activated = True
            for offset, part in enumerate((arm.shoulder_state, arm.elbow_state, arm.wrist_state)):
                _fill(part, number / 8 + offset / 64)
        return state

    def StreamReachyState(self, request, context):
        while context.is_active():
            state = self.GetReachyState(request, context)
            state.timestamp.GetCurrentTime()
            yield state
            time.sleep(1 / request.publish_frequency)

    def Audit(self, request, context):
        return reachy_pb2.ReachyStatus()

    def GoToJoints(self, request, context):
        self.goals[len(self.goals)] = request
        return goto_pb2.GoToId(id=len(self.goals) - 1)

    def GetGoToRequest(self, request, context):
        return self.goals[request.id]

    def GetGoToState(self, request, context):
        return goto_pb2.GoToGoalStatus(goal_status=goto_pb2.GoalStatus.STATUS_SUCCEEDED)

    def TurnOn(self, request, context):
        return Empty()


def _fill(message, value):
    """Set every number of a state to the value."""
    for field in message.DESCRIPTOR.fields:
        if field.message_type and field.name not in ("timestamp", "id", "q", "matrix"):
            part = getattr(message, field.name)
            if field.message_type.name == "FloatValue":
                part.value = value
            elif field.message_type.name == "BoolValue":
                part.value = False
            else:
                _fill(part, value)


def server(port):
    """Serve the robot."""
    robot = Robot()
    return serving(
        port,
        lambda server: reachy_pb2_grpc.add_ReachyServiceServicer_to_server(robot, server),
        lambda server: goto_pb2_grpc.add_GoToServiceServicer_to_server(robot, server),
        lambda server: arm_pb2_grpc.add_ArmServiceServicer_to_server(robot, server),
    )


@contextmanager
def client(port):
    """Connect, read the joints, move an arm."""
    robot = ReachySDK.__new__(ReachySDK, "127.0.0.1")  # which refuses the ports that its __init__ takes
    robot.__init__("127.0.0.1", sdk_port=port, audio_port=port, video_port=port)
    assert robot.is_connected()
    arm = robot.r_arm

    def move(step=0):
        return arm.goto([step, 1, 2, 3, 4, 5, 6], duration=1)

    def is_finished():
        return robot.is_goto_finished(first)

    first = move()

    def streamed():
        before, end = robot.get_update_timestamp(), time.monotonic() + 30
        while robot.get_update_timestamp() == before and time.monotonic() < end:
            time.sleep(0.005)
        return robot.get_update_timestamp() > before

    def equal():
        return {
            "joints": {name: round(joint.present_position, 4) for name, joint in robot.joints.items()},
            "goals": [round(value, 4) for value in robot.get_goto_request(move(7)).request.target.joints],
            "finished": is_finished(),
            "serial number": robot.info._robot_serial_number,
            "streamed": streamed(),
            "on": arm.is_on(),
        }

    yield equal, is_finished, move
    robot.disconnect()
