"""Why each method has its side-effect class: whether a call may be made a second time to compare two transports.

READ changes nothing and may get a live shadow. VIEW changes what is shown (images, scans, drawings) and WORLD changes
the course of the simulation: neither is ever made twice on one engine. They are compared on two engines with the same
seed (`lucky-transport parity`), or by recording and replay (`lucky-transport record`, `replay`).

One row a method of LuckyEngine, in the order of the table of methods, whose `effect` is the class. Of other services
protobuf's own option says it, or the file of stages; what is not said counts as WORLD:

    rpc GetForecast(ForecastRequest) returns (Forecast) {
      option idempotency_level = NO_SIDE_EFFECTS;              // read; IDEMPOTENT is idempotent
    }

    [stages.effects]
    "Weather/Get*" = "read"                                    # before what the .proto says
"""

from __future__ import annotations

from lucky_transport.messages.methods import Effect

#: Values of protobuf's `idempotency_level`: by number, the effect that it names and the word for it.
BY_LEVEL: dict[int, tuple[Effect, str]] = {
    1: (Effect.READ, "option idempotency_level = NO_SIDE_EFFECTS"),
    2: (Effect.IDEMPOTENT, "option idempotency_level = IDEMPOTENT"),
}

#: Why a method counts as WORLD of which nothing is said.
UNSAID = "nothing says what it changes"

#: Full name -> the reason for its class.
REASONS: dict[str, str] = {
    "/hazel.rpc.AgentService/GetAgentSchema": "sizes and names of an agent, fixed once it is registered",
    "/hazel.rpc.AgentService/ResetAgent": "puts the agent back and draws from its random numbers",
    "/hazel.rpc.AgentService/Step": "one call is one tick of the simulation",
    "/hazel.rpc.AgentService/SetActionGroup": "the kept actions go into the next Step",
    "/hazel.rpc.AgentService/ReportProgress": "ends the agent's lease with the training; made twice it counts twice",
    "/hazel.rpc.AgentService/GetCapabilityManifest": "the terms that exist, fixed when the engine starts",
    "/hazel.rpc.AgentService/ValidateTaskContract": "checks a contract and puts nothing in force",
    "/hazel.rpc.AgentService/NegotiateTask": "puts a contract in force: later Steps report other terms",
    "/hazel.rpc.AgentService/ListRobotControllers": "what the controllers look like at that moment",
    "/hazel.rpc.AgentService/GetRobotController": "what one controller looks like at that moment",
    "/hazel.rpc.AgentService/ListPolicyDescriptors": "the policies of the project, fixed when it is loaded",
    "/hazel.rpc.AgentService/SetPolicyActive": "starts or stops a policy that moves joints",
    "/hazel.rpc.AgentService/SetPolicyDescriptor": "another policy moves the joints from then on",
    "/hazel.rpc.AgentService/SetPolicyDrivenJoints": "other joints are moved from then on",
    "/hazel.rpc.AgentService/SetPolicyClampObservation": "the policy sees other numbers from then on",
    "/hazel.rpc.AgentService/SetPolicyPriority": "another policy wins a joint from then on",
    "/hazel.rpc.AgentService/SetPolicyCommandFloat": "the policy is told to do something else",
    "/hazel.rpc.AgentService/SetPolicyCommandBool": "the policy is told to do something else",
    "/hazel.rpc.AgentService/SetPolicyGains": "joints are driven with other gains from then on",
    "/hazel.rpc.AgentService/ClearPolicyGains": "joints are driven with their own gains again",
    "/hazel.rpc.AgentService/GetPolicyCommandFloat": "what the policy was told last",
    "/hazel.rpc.AgentService/GetPolicyCommandBool": "what the policy was told last",
    "/hazel.rpc.AgentService/SetMotionGraphActive": "starts or stops a graph that moves joints",
    "/hazel.rpc.AgentService/GetMotionGraphActive": "whether the graph runs",
    "/hazel.rpc.AgentService/SetMotionGraphInput": "the graph moves joints by another value from then on",
    "/hazel.rpc.AgentService/GetMotionGraphInput": "the value that was set last",
    "/hazel.rpc.AgentService/FireMotionGraphTrigger": "a trigger fired twice makes two transitions",
    "/hazel.rpc.AgentService/GetPolicyBasePose": "the pose of an active policy at that moment",
    "/hazel.rpc.AgentService/GetPolicyLastAction": "what the policy did last, kept until it acts again",
    "/hazel.rpc.AgentService/StreamPolicySlotState": "tells of changes of a slot and makes none",
    "/hazel.rpc.AgentService/StreamRobotController": "tells of changes of a controller and makes none",
    "/hazel.rpc.MujocoService/GetJointState": "positions and velocities at that moment",
    "/hazel.rpc.MujocoService/GetMujocoInfo": "facts of the model, fixed when it is loaded",
    "/hazel.rpc.MujocoService/StreamJointState": "positions and velocities as they come",
    "/hazel.rpc.MujocoSceneService/GetModelInfo": "facts of the model, fixed when it is loaded",
    "/hazel.rpc.MujocoSceneService/GetFullState": "the whole state at that moment, read between two steps",
    "/hazel.rpc.MujocoSceneService/StreamFullState": "the whole state as it comes",
    "/hazel.rpc.MujocoSceneService/SetControl": "actuators push differently from then on",
    "/hazel.rpc.MujocoSceneService/SetQpos": "moves the model",
    "/hazel.rpc.MujocoSceneService/GetActuatorGains": "the gains in force at that moment",
    "/hazel.rpc.MujocoSceneService/ResetScene": "puts the whole scene back",
    "/hazel.rpc.SceneService/GetSceneInfo": "facts of the scene, fixed when it is loaded",
    "/hazel.rpc.SceneService/ListEntities": "the entities at that moment",
    "/hazel.rpc.SceneService/GetEntity": "one entity at that moment",
    "/hazel.rpc.SceneService/SetEntityTransform": "moves an entity, which others may touch",
    "/hazel.rpc.SceneService/SetSimulationMode": "time passes differently from then on",
    "/hazel.rpc.SceneService/GetSimulationMode": "the mode in force at that moment",
    "/hazel.rpc.SceneService/EnterPlayMode": "starts the simulation; made twice it fails or starts anew",
    "/hazel.rpc.SceneService/ExitPlayMode": "ends the simulation, its training session and its recordings",
    "/hazel.rpc.CameraService/ListCameras": "the cameras of the scene, fixed when it is loaded",
    "/hazel.rpc.CameraService/StreamCamera": "images of the world, which it does not touch",
    "/hazel.rpc.CameraService/GetCameraConfig": "the settings in force at that moment",
    "/hazel.rpc.CameraService/SetCameraConfig": "later images look different, the simulation does not",
    "/hazel.rpc.TelemetryService/GetTelemetrySchema": "the names in telemetry, fixed when the scene is loaded",
    "/hazel.rpc.TelemetryService/StreamTelemetry": "positions and controls as they come",
    "/hazel.rpc.ViewportService/GetViewportInfo": "size and format of the viewport at that moment",
    "/hazel.rpc.ViewportService/StreamViewport": "images of the viewport, which it does not touch",
    "/hazel.rpc.DebugService/Draw": "adds lines to what is shown; drawn twice they are there twice",
    "/hazel.rpc.LidarService/SetLidarLive": "scans are computed from then on; the simulation does not see them",
    "/hazel.rpc.LidarService/SetLidarConfig": "later scans are taken differently",
    "/hazel.rpc.LidarService/GetLidarConfig": "the settings in force at that moment",
    "/hazel.rpc.LidarService/SetLidarReturnParams": "later scans of all sensors are computed differently",
    "/hazel.rpc.LidarService/GetLidarReturnParams": "the parameters in force at that moment",
    "/hazel.rpc.LidarService/SetLidarPreset": "later scans are taken differently",
    "/hazel.rpc.LidarService/SetLidarSecondaryCapture": "later scans have second returns, or none",
    "/hazel.rpc.LidarService/BakeLidarMaterial": "replaces the baked materials of later scans, and takes its time",
    "/hazel.rpc.LidarService/GetLidarBakeStatus": "how far a bake is at that moment",
    "/hazel.rpc.LidarService/LoadLidarBake": "replaces the baked materials that later scans use",
    "/hazel.rpc.LidarService/SaveLidarBake": "writes a file; made twice it would write over the first",
    "/hazel.rpc.LidarService/GetLidarScan": "the last scan, kept until the next one is taken",
    "/hazel.rpc.LidarService/GetLidarBeamCount": "follows from the settings in force",
    "/hazel.rpc.LidarService/GetLidarBeamAngles": "follows from the settings in force",
    "/lucky_transport.v1.BatchService/SetSeeds": "the next reset draws other random numbers",
    "/lucky_transport.v1.BatchService/SetResetOptions": "the next reset goes differently",
    "/lucky_transport.v1.StateService/GetState": "copies the state of one env",
    "/lucky_transport.v1.StateService/SetState": "puts one env into another state",
    "/lucky_transport.v1.SessionService/GetWorlds": "what the engine offers, fixed when it starts",
    "/lucky_transport.v1.SessionService/CreateSession": "made twice there are two sessions",
    "/lucky_transport.v1.SessionService/GetSession": "where a session stands at that moment",
    "/lucky_transport.v1.SessionService/ListSessions": "the sessions at that moment",
    "/lucky_transport.v1.SessionService/AdvanceSession": "a session's world goes on; made twice it goes on twice",
    "/lucky_transport.v1.SessionService/ActInSession": "the next tick takes the actions",
    "/lucky_transport.v1.SessionService/RunSession": "a session's world goes on by itself from then on",
    "/lucky_transport.v1.SessionService/GetLatest": "the newest look at a session's world, which it does not touch",
    "/lucky_transport.v1.SessionService/RestartSession": "a session's world starts over",
    "/lucky_transport.v1.SessionService/DestroySession": "ends a session and its world",
    "/lucky_transport.v1.SessionService/GetRecording": "what a session was given so far",
}
