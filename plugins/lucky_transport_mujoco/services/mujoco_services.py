"""All typed methods of the engine, put together from the services' modules."""

from __future__ import annotations

from dataclasses import replace

from lucky_transport.engine import Handler, StreamHandler
from lucky_transport.host.task import task_handlers
from lucky_transport.messages import (
    EngineCapabilityManifest,
    GetCapabilityManifestRequest,
    GetCapabilityManifestResponse,
    MdpActuatorLimit,
    MdpComponentDescriptor,
    MdpParamDescriptor,
    MdpRandomizationDescriptor,
    MdpRobotInfo,
    SimulationContract,
)
from lucky_transport_mujoco import terrain
from lucky_transport_mujoco.control.policies import ACTION_SCALE_RAD
from lucky_transport_mujoco.randomization import QUANTITIES, Quantity
from lucky_transport_mujoco.robot import NAME, Robot
from lucky_transport_mujoco.sensors.cameras import CameraService
from lucky_transport_mujoco.sensors.lidar import LidarBaking, LidarService
from lucky_transport_mujoco.sensors.render_thread import RenderThread
from lucky_transport_mujoco.sensors.viewport import DebugService, ViewportService
from lucky_transport_mujoco.services.agent import ControllerService
from lucky_transport_mujoco.services.scene import Entities, SceneService
from lucky_transport_mujoco.services.service import Service
from lucky_transport_mujoco.services.state import JointService, SceneControlService, SceneStateService, TelemetryService
from lucky_transport_mujoco.tasks.velocity import TERMINATIONS, Task
from lucky_transport_mujoco.world import MujocoWorlds

_OF_THE_WORLD: tuple[type[Service], ...] = (
    ControllerService,
    JointService,
    SceneStateService,
    SceneControlService,
    TelemetryService,
    DebugService,
    LidarService,
    LidarBaking,
)


class MujocoServices:
    """The services of one engine; `cameras` take the images of a step."""

    def __init__(self, world: MujocoWorlds, renderer: str) -> None:
        """`renderer`: see `lucky_transport_mujoco.sensors.render_thread.RenderThread`.

        Nothing is drawn and no thread is started before the first image is asked for. Raises SpecError for a renderer
        that does not exist.
        """
        entities = Entities(world)
        self._render_thread = RenderThread(renderer)
        self.cameras = CameraService(world, entities, self._render_thread)
        viewport = ViewportService(world, self._render_thread)
        services = [self.cameras, viewport, SceneService(world, entities), *(each(world) for each in _OF_THE_WORLD)]
        self.handlers: dict[str, Handler] = {_MANIFEST: _manifest(world)}
        self.streams: dict[str, StreamHandler] = {}
        for service in services:
            self.handlers |= service.handlers()
            self.streams |= service.streams()

    def close(self) -> None:
        """End the thread that draws; idempotent. Streams that still run end with ClosedError."""
        self._render_thread.close()


_MANIFEST = "/hazel.rpc.AgentService/GetCapabilityManifest"


def _manifest(world: MujocoWorlds) -> Handler:
    plain = task_handlers(world.spec)[_MANIFEST]

    def manifest(request: GetCapabilityManifestRequest) -> GetCapabilityManifestResponse:
        return _described(plain(request), world.robot, world.task)

    return manifest


def _described(plain: GetCapabilityManifestResponse, robot: Robot, task: Task) -> GetCapabilityManifestResponse:
    manifest = plain.manifest or EngineCapabilityManifest()
    summaries = task.summaries | {term.name: term.summary for term in TERMINATIONS}
    for component in (*manifest.rewards, *manifest.terminations):
        component.description = summaries[component.name]
    joints = zip(robot.joint_low, robot.joint_high, robot.joint_home, strict=True)
    about = MdpRobotInfo(
        name=NAME,
        joint_names=list(robot.joint_names),
        actuator_names=list(robot.actuator_names),
        actuator_limits=[MdpActuatorLimit(float(a), float(b), float(c), ACTION_SCALE_RAD) for a, b, c in joints],
        body_names=list(robot.body_names),
        sensor_names=list(robot.sensor_names),
        available_scenes=list(terrain.NAMES),
    )
    randomizations = [_descriptor(quantity, task.contract) for quantity in QUANTITIES]
    return GetCapabilityManifestResponse(replace(manifest, randomizations=randomizations, robot_info=about))


def _descriptor(quantity: Quantity, defaults: SimulationContract) -> MdpRandomizationDescriptor:
    """Describe one quantity; its default range is what holds while a client has sent no contract."""
    default = getattr(defaults, quantity.name)
    values = (default if isinstance(default, list) else [default]) or [quantity.nominal]
    low, high = (0.0 if quantity.kind == "noise" else values[0]), values[-1]
    param = MdpParamDescriptor(
        type="float" if quantity.count == 0 else f"float[{quantity.count}]",
        default_value=str(default),
        description=f"{quantity.kind} in {quantity.unit}" if quantity.unit else quantity.kind,
        range_min=quantity.least,
        range_max=quantity.most,
        has_range=True,
    )
    base = MdpComponentDescriptor(
        name=quantity.name,
        description=quantity.summary,
        category="randomization",
        params_schema={quantity.name: param},
        output_shape=[max(quantity.count, 1)],
    )
    return MdpRandomizationDescriptor(base, low, high, quantity.target)
