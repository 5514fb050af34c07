"""Why each method has its side-effect class: whether a call may be made a second time to compare two transports.

READ changes nothing and may get a live shadow. VIEW changes what is shown (images, scans, drawings) and WORLD changes
the course of the simulation: neither is ever made twice on one engine. They are compared on two engines with the same
seed (`lucky-transport parity`), or by recording and replay (`lucky-transport record`, `replay`).

One row a method, in the order of the table of methods, whose `effect` says the same (a test looks). A method without a
row, such as one of a team's own services, counts as WORLD.
"""

from __future__ import annotations

from lucky_transport.messages.method import Effect

__all__ = ["EFFECTS", "reason"]

READ, VIEW, WORLD = Effect.READ, Effect.VIEW, Effect.WORLD

#: Full name -> side-effect class and the reason for it.
EFFECTS: dict[str, tuple[Effect, str]] = {
    "/hazel.rpc.AgentService/GetAgentSchema": (READ, "sizes and names of an agent, fixed once it is registered"),
    "/hazel.rpc.AgentService/ResetAgent": (WORLD, "puts the agent back and draws from its random numbers"),
    "/hazel.rpc.AgentService/Step": (WORLD, "one call is one tick of the simulation"),
    "/hazel.rpc.AgentService/SetActionGroup": (WORLD, "the kept actions go into the next Step"),
    "/hazel.rpc.AgentService/ReportProgress": (
        WORLD,
        "an end of training gives up the agent's lease; a report made twice counts twice on the display",
    ),
    "/hazel.rpc.AgentService/GetCapabilityManifest": (READ, "the terms that exist, fixed when the engine starts"),
    "/hazel.rpc.AgentService/ValidateTaskContract": (READ, "checks a contract and puts nothing in force"),
    "/hazel.rpc.AgentService/NegotiateTask": (WORLD, "puts a contract in force: later Steps report other terms"),
    "/hazel.rpc.AgentService/ListRobotControllers": (READ, "what the controllers look like at that moment"),
    "/hazel.rpc.AgentService/GetRobotController": (READ, "what one controller looks like at that moment"),
    "/hazel.rpc.AgentService/ListPolicyDescriptors": (READ, "the policies of the project, fixed when it is loaded"),
    "/hazel.rpc.AgentService/SetPolicyActive": (WORLD, "starts or stops a policy that moves joints"),
    "/hazel.rpc.AgentService/SetPolicyDescriptor": (WORLD, "another policy moves the joints from then on"),
    "/hazel.rpc.AgentService/SetPolicyDrivenJoints": (WORLD, "other joints are moved from then on"),
    "/hazel.rpc.AgentService/SetPolicyClampObservation": (WORLD, "the policy sees other numbers from then on"),
    "/hazel.rpc.AgentService/SetPolicyPriority": (WORLD, "another policy wins a joint from then on"),
    "/hazel.rpc.AgentService/SetPolicyCommandFloat": (WORLD, "the policy is told to do something else"),
    "/hazel.rpc.AgentService/SetPolicyCommandBool": (WORLD, "the policy is told to do something else"),
    "/hazel.rpc.AgentService/SetPolicyGains": (WORLD, "joints are driven with other gains from then on"),
    "/hazel.rpc.AgentService/ClearPolicyGains": (WORLD, "joints are driven with their own gains again"),
    "/hazel.rpc.AgentService/GetPolicyCommandFloat": (READ, "what the policy was told last"),
    "/hazel.rpc.AgentService/GetPolicyCommandBool": (READ, "what the policy was told last"),
    "/hazel.rpc.AgentService/SetMotionGraphActive": (WORLD, "starts or stops a graph that moves joints"),
    "/hazel.rpc.AgentService/GetMotionGraphActive": (READ, "whether the graph runs"),
    "/hazel.rpc.AgentService/SetMotionGraphInput": (WORLD, "the graph moves joints by another value from then on"),
    "/hazel.rpc.AgentService/GetMotionGraphInput": (READ, "the value that was set last"),
    "/hazel.rpc.AgentService/FireMotionGraphTrigger": (WORLD, "a trigger fired twice makes two transitions"),
    "/hazel.rpc.AgentService/GetPolicyBasePose": (READ, "the pose of an active policy at that moment"),
    "/hazel.rpc.AgentService/GetPolicyLastAction": (READ, "what the policy did last, kept until it acts again"),
    "/hazel.rpc.AgentService/StreamPolicySlotState": (READ, "tells of changes of a slot and makes none"),
    "/hazel.rpc.AgentService/StreamRobotController": (READ, "tells of changes of a controller and makes none"),
    "/hazel.rpc.MujocoService/GetJointState": (READ, "positions and velocities at that moment"),
    "/hazel.rpc.MujocoService/GetMujocoInfo": (READ, "facts of the model, fixed when it is loaded"),
    "/hazel.rpc.MujocoService/StreamJointState": (READ, "positions and velocities as they come"),
    "/hazel.rpc.MujocoSceneService/GetModelInfo": (READ, "facts of the model, fixed when it is loaded"),
    "/hazel.rpc.MujocoSceneService/GetFullState": (READ, "the whole state at that moment, read between two steps"),
    "/hazel.rpc.MujocoSceneService/StreamFullState": (READ, "the whole state as it comes"),
    "/hazel.rpc.MujocoSceneService/SetControl": (WORLD, "actuators push differently from then on"),
    "/hazel.rpc.MujocoSceneService/SetQpos": (WORLD, "moves the model"),
    "/hazel.rpc.MujocoSceneService/GetActuatorGains": (READ, "the gains in force at that moment"),
    "/hazel.rpc.MujocoSceneService/ResetScene": (WORLD, "puts the whole scene back"),
    "/hazel.rpc.SceneService/GetSceneInfo": (READ, "facts of the scene, fixed when it is loaded"),
    "/hazel.rpc.SceneService/ListEntities": (READ, "the entities at that moment"),
    "/hazel.rpc.SceneService/GetEntity": (READ, "one entity at that moment"),
    "/hazel.rpc.SceneService/SetEntityTransform": (WORLD, "moves an entity, which others may touch"),
    "/hazel.rpc.SceneService/SetSimulationMode": (WORLD, "time passes differently from then on"),
    "/hazel.rpc.SceneService/GetSimulationMode": (READ, "the mode in force at that moment"),
    "/hazel.rpc.SceneService/EnterPlayMode": (WORLD, "starts the simulation; made twice it fails or starts anew"),
    "/hazel.rpc.SceneService/ExitPlayMode": (WORLD, "ends the simulation, its training session and its recordings"),
    "/hazel.rpc.CameraService/ListCameras": (READ, "the cameras of the scene, fixed when it is loaded"),
    "/hazel.rpc.CameraService/StreamCamera": (READ, "images of the world, which it does not touch"),
    "/hazel.rpc.CameraService/GetCameraConfig": (READ, "the settings in force at that moment"),
    "/hazel.rpc.CameraService/SetCameraConfig": (VIEW, "later images look different, the simulation does not"),
    "/hazel.rpc.TelemetryService/GetTelemetrySchema": (READ, "the names in telemetry, fixed when the scene is loaded"),
    "/hazel.rpc.TelemetryService/StreamTelemetry": (READ, "positions and controls as they come"),
    "/hazel.rpc.ViewportService/GetViewportInfo": (READ, "size and format of the viewport at that moment"),
    "/hazel.rpc.ViewportService/StreamViewport": (READ, "images of the viewport, which it does not touch"),
    "/hazel.rpc.DebugService/Draw": (VIEW, "adds lines to what is shown; drawn twice they are there twice"),
    "/hazel.rpc.LidarService/SetLidarLive": (VIEW, "scans are computed from then on; the simulation does not see them"),
    "/hazel.rpc.LidarService/SetLidarConfig": (VIEW, "later scans are taken differently"),
    "/hazel.rpc.LidarService/GetLidarConfig": (READ, "the settings in force at that moment"),
    "/hazel.rpc.LidarService/SetLidarReturnParams": (VIEW, "later scans of all sensors are computed differently"),
    "/hazel.rpc.LidarService/GetLidarReturnParams": (READ, "the parameters in force at that moment"),
    "/hazel.rpc.LidarService/SetLidarPreset": (VIEW, "later scans are taken differently"),
    "/hazel.rpc.LidarService/SetLidarSecondaryCapture": (VIEW, "later scans have second returns, or none"),
    "/hazel.rpc.LidarService/BakeLidarMaterial": (
        VIEW,
        "replaces the baked materials that later scans use, and takes its time",
    ),
    "/hazel.rpc.LidarService/GetLidarBakeStatus": (READ, "how far a bake is at that moment"),
    "/hazel.rpc.LidarService/LoadLidarBake": (VIEW, "replaces the baked materials that later scans use"),
    "/hazel.rpc.LidarService/SaveLidarBake": (VIEW, "writes a file; made twice it would write over the first"),
    "/hazel.rpc.LidarService/GetLidarScan": (READ, "the last scan, kept until the next one is taken"),
    "/hazel.rpc.LidarService/GetLidarBeamCount": (READ, "follows from the settings in force"),
    "/hazel.rpc.LidarService/GetLidarBeamAngles": (READ, "follows from the settings in force"),
    "/lucky_transport.v1.BatchService/SetSeeds": (WORLD, "the next reset draws other random numbers"),
    "/lucky_transport.v1.BatchService/SetResetOptions": (WORLD, "the next reset goes differently"),
    "/lucky_transport.v1.StateService/GetState": (READ, "copies the state of one env"),
    "/lucky_transport.v1.StateService/SetState": (WORLD, "puts one env into another state"),
    "/lucky_transport.v1.SessionService/GetWorlds": (READ, "what the engine offers, fixed when it starts"),
    "/lucky_transport.v1.SessionService/CreateSession": (WORLD, "made twice there are two sessions"),
    "/lucky_transport.v1.SessionService/GetSession": (READ, "where a session stands at that moment"),
    "/lucky_transport.v1.SessionService/ListSessions": (READ, "the sessions at that moment"),
    "/lucky_transport.v1.SessionService/AdvanceSession": (
        WORLD,
        "a session's world goes on; made twice it goes on twice",
    ),
    "/lucky_transport.v1.SessionService/ActInSession": (WORLD, "the next tick takes the actions"),
    "/lucky_transport.v1.SessionService/RunSession": (WORLD, "a session's world goes on by itself from then on"),
    "/lucky_transport.v1.SessionService/GetLatest": (
        READ,
        "the newest look at a session's world, which it does not touch",
    ),
    "/lucky_transport.v1.SessionService/RestartSession": (WORLD, "a session's world starts over"),
    "/lucky_transport.v1.SessionService/DestroySession": (WORLD, "ends a session and its world"),
    "/lucky_transport.v1.SessionService/GetRecording": (READ, "what a session was given so far"),
    "/lucky_transport.v1.SessionService/ShareSession": (
        VIEW,
        "shows a session in shared memory too, until its client leaves",
    ),
}


def reason(method: str) -> str:
    """Return why a method, given by its full name, has its class."""
    return EFFECTS[method][1] if method in EFFECTS else "not in the table of methods: it may change the world"
