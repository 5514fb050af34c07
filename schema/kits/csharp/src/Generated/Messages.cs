// The messages of schema/hazel_rpc.fbs, and the envelope around them.
//
// Generated from proto/ by schema/generate.py; do not edit.

using System.Collections.Generic;

namespace LuckyTransport
{
    /// <summary>What the reader of messages needs to know of all of them.</summary>
    internal static class MessageLimits
    {
        /// <summary>How deep tables may lie in tables.</summary>
        internal const int Depth = 64;
    }

    /// <summary>Handle of one entity, valid while its scene is loaded.</summary>
    public sealed class EntityId : Message
    {
        public ulong Id { get; set; }

        internal override void Read(TableReader table)
        {
            Id = table.UInt64(0);
        }

        internal override void Write(TableWriter table)
        {
            table.UInt64(0, Id);
        }
    }

    /// <summary>Three components; the field that holds them says of what and in which unit.</summary>
    public sealed class Vec3 : Struct
    {
        public float X { get; set; }
        public float Y { get; set; }
        public float Z { get; set; }

        internal override int Size { get { return 12; } }

        internal override int Alignment { get { return 4; } }

        internal override void Read(ByteReader from, int at)
        {
            X = from.Single(at + 0);
            Y = from.Single(at + 4);
            Z = from.Single(at + 8);
        }

        internal override void Write(ByteWriter to, int at)
        {
            to.PutSingle(at + 0, X);
            to.PutSingle(at + 4, Y);
            to.PutSingle(at + 8, Z);
        }
    }

    /// <summary>Rotation as a unit quaternion, scalar last (MuJoCo's own vectors have it first).</summary>
    public sealed class Quat : Struct
    {
        public float X { get; set; }
        public float Y { get; set; }
        public float Z { get; set; }
        public float W { get; set; }

        internal override int Size { get { return 16; } }

        internal override int Alignment { get { return 4; } }

        internal override void Read(ByteReader from, int at)
        {
            X = from.Single(at + 0);
            Y = from.Single(at + 4);
            Z = from.Single(at + 8);
            W = from.Single(at + 12);
        }

        internal override void Write(ByteWriter to, int at)
        {
            to.PutSingle(at + 0, X);
            to.PutSingle(at + 4, Y);
            to.PutSingle(at + 8, Z);
            to.PutSingle(at + 12, W);
        }
    }

    /// <summary>Placement of an entity in the world: metres, a rotation, and a factor per axis (1 = as
    /// authored).</summary>
    public sealed class Transform : Message
    {
        public Vec3 Position { get; set; }
        public Quat Rotation { get; set; }
        public Vec3 Scale { get; set; }

        internal override void Read(TableReader table)
        {
            Position = table.Struct<Vec3>(0);
            Rotation = table.Struct<Quat>(1);
            Scale = table.Struct<Vec3>(2);
        }

        internal override void Write(TableWriter table)
        {
            table.Struct(0, Position);
            table.Struct(1, Rotation);
            table.Struct(2, Scale);
        }
    }

    /// <summary>One image, uncompressed: rows from the top, pixels from the left.</summary>
    public sealed class ImageFrame : Message
    {
        public byte[] Data { get; set; } = new byte[0];
        public uint Width { get; set; }
        public uint Height { get; set; }
        public uint Channels { get; set; }
        public string Format { get; set; } = "";
        public ulong TimestampMs { get; set; }
        public uint FrameNumber { get; set; }
        public float DepthScale { get; set; }

        internal override void Read(TableReader table)
        {
            Data = table.Bytes(0);
            Width = table.UInt32(1);
            Height = table.UInt32(2);
            Channels = table.UInt32(3);
            Format = table.Text(4);
            TimestampMs = table.UInt64(5);
            FrameNumber = table.UInt32(6);
            DepthScale = table.Single(7);
        }

        internal override void Write(TableWriter table)
        {
            table.Image(0, Data);
            table.UInt32(1, Width);
            table.UInt32(2, Height);
            table.UInt32(3, Channels);
            table.Text(4, Format);
            table.UInt64(5, TimestampMs);
            table.UInt32(6, FrameNumber);
            table.Single(7, DepthScale);
        }

        internal override void FindImages(List<ImageFrame> found)
        {
            found.Add(this);
        }
    }

    /// <summary>An image and the name of the camera that rendered it.</summary>
    public sealed class NamedImageFrame : Message
    {
        public string Name { get; set; } = "";
        public ImageFrame Frame { get; set; }

        internal override void Read(TableReader table)
        {
            Name = table.Text(0);
            Frame = table.Table<ImageFrame>(1);
        }

        internal override void Write(TableWriter table)
        {
            table.Text(0, Name);
            table.Table(1, Frame);
        }

        internal override void FindImages(List<ImageFrame> found)
        {
            if (Frame != null) Frame.FindImages(found);
        }
    }

    /// <summary>Generalised positions [nq] and velocities [nv], in MuJoCo's order and units.</summary>
    public sealed class JointState : Message
    {
        public float[] Positions { get; set; } = new float[0];
        public float[] Velocities { get; set; } = new float[0];
        public uint Nq { get; set; }
        public uint Nv { get; set; }

        internal override void Read(TableReader table)
        {
            Positions = table.SingleList(0);
            Velocities = table.SingleList(1);
            Nq = table.UInt32(2);
            Nv = table.UInt32(3);
        }

        internal override void Write(TableWriter table)
        {
            table.SingleList(0, Positions);
            table.SingleList(1, Velocities);
            table.UInt32(2, Nq);
            table.UInt32(3, Nv);
        }
    }

    /// <summary>Asks for a robot's joint state; "" means `agent_0`'s robot.</summary>
    public sealed class GetJointStateRequest : Message
    {
        public string RobotName { get; set; } = "";

        internal override void Read(TableReader table)
        {
            RobotName = table.Text(0);
        }

        internal override void Write(TableWriter table)
        {
            table.Text(0, RobotName);
        }
    }

    /// <summary>The joint state, or why there is none.</summary>
    public sealed class GetJointStateResponse : Message
    {
        public bool Success { get; set; }
        public string Message { get; set; } = "";
        public JointState State { get; set; }

        internal override void Read(TableReader table)
        {
            Success = table.Bool(0);
            Message = table.Text(1);
            State = table.Table<JointState>(2);
        }

        internal override void Write(TableWriter table)
        {
            table.Bool(0, Success);
            table.Text(1, Message);
            table.Table(2, State);
        }
    }

    /// <summary>Asks for the model's sizes and names.</summary>
    public sealed class GetMujocoInfoRequest : Message
    {
        public string RobotName { get; set; } = "";

        internal override void Read(TableReader table)
        {
            RobotName = table.Text(0);
        }

        internal override void Write(TableWriter table)
        {
            table.Text(0, RobotName);
        }
    }

    /// <summary>Sizes and names of the MuJoCo model.</summary>
    public sealed class GetMujocoInfoResponse : Message
    {
        public bool Success { get; set; }
        public string Message { get; set; } = "";
        public uint Nq { get; set; }
        public uint Nv { get; set; }
        public uint Nu { get; set; }
        public string[] JointNames { get; set; } = new string[0];
        public string[] ActuatorNames { get; set; } = new string[0];

        internal override void Read(TableReader table)
        {
            Success = table.Bool(0);
            Message = table.Text(1);
            Nq = table.UInt32(2);
            Nv = table.UInt32(3);
            Nu = table.UInt32(4);
            JointNames = table.TextList(5);
            ActuatorNames = table.TextList(6);
        }

        internal override void Write(TableWriter table)
        {
            table.Bool(0, Success);
            table.Text(1, Message);
            table.UInt32(2, Nq);
            table.UInt32(3, Nv);
            table.UInt32(4, Nu);
            table.TextList(5, JointNames);
            table.TextList(6, ActuatorNames);
        }
    }

    /// <summary>Names and sizes of the vectors in TelemetryFrame: nq positions, nu controls.</summary>
    public sealed class TelemetrySchema : Message
    {
        public string[] ObservationNames { get; set; } = new string[0];
        public string[] ActionNames { get; set; } = new string[0];
        public uint Nq { get; set; }
        public uint Nu { get; set; }

        internal override void Read(TableReader table)
        {
            ObservationNames = table.TextList(0);
            ActionNames = table.TextList(1);
            Nq = table.UInt32(2);
            Nu = table.UInt32(3);
        }

        internal override void Write(TableWriter table)
        {
            table.TextList(0, ObservationNames);
            table.TextList(1, ActionNames);
            table.UInt32(2, Nq);
            table.UInt32(3, Nu);
        }
    }

    /// <summary>Asks for the names and sizes.</summary>
    public sealed class GetTelemetrySchemaRequest : Message
    {
        internal override void Read(TableReader table) { }

        internal override void Write(TableWriter table) { }
    }

    /// <summary>The names and sizes.</summary>
    public sealed class GetTelemetrySchemaResponse : Message
    {
        public TelemetrySchema Schema { get; set; }

        internal override void Read(TableReader table)
        {
            Schema = table.Table<TelemetrySchema>(0);
        }

        internal override void Write(TableWriter table)
        {
            table.Table(0, Schema);
        }
    }

    /// <summary>Asks for samples, `target_fps` per second of wall clock as a wish (0 = the engine's default).</summary>
    public sealed class StreamTelemetryRequest : Message
    {
        public uint TargetFps { get; set; }

        internal override void Read(TableReader table)
        {
            TargetFps = table.UInt32(0);
        }

        internal override void Write(TableWriter table)
        {
            table.UInt32(0, TargetFps);
        }
    }

    /// <summary>One sample.</summary>
    public sealed class TelemetryFrame : Message
    {
        public ulong TimestampMs { get; set; }
        public uint FrameNumber { get; set; }
        public uint TaskIndex { get; set; }
        public float[] ObservationQpos { get; set; } = new float[0];
        public float[] ActionCtrl { get; set; } = new float[0];

        internal override void Read(TableReader table)
        {
            TimestampMs = table.UInt64(0);
            FrameNumber = table.UInt32(1);
            TaskIndex = table.UInt32(2);
            ObservationQpos = table.SingleList(3);
            ActionCtrl = table.SingleList(4);
        }

        internal override void Write(TableWriter table)
        {
            table.UInt64(0, TimestampMs);
            table.UInt32(1, FrameNumber);
            table.UInt32(2, TaskIndex);
            table.SingleList(3, ObservationQpos);
            table.SingleList(4, ActionCtrl);
        }
    }

    /// <summary>What an image holds.</summary>
    public enum CameraStreamKind
    {
        Color = 0,
        Depth = 1,
    }

    /// <summary>Type of a policy's command or of a motion graph's input.</summary>
    public enum PolicyCommandType
    {
        Float = 0,
        Bool = 1,
        Int = 2,
        Uint = 3,
        Vec2 = 4,
        Vec3 = 5,
        Vec4 = 6,
        String = 7,
    }

    /// <summary>Names and sizes of one agent's flat observation and action vectors. A name is a term's, and a term may
    /// span several values.</summary>
    public sealed class AgentSchema : Message
    {
        public string AgentName { get; set; } = "";
        public string[] ObservationNames { get; set; } = new string[0];
        public string[] ActionNames { get; set; } = new string[0];
        public uint ObservationSize { get; set; }
        public uint ActionSize { get; set; }

        internal override void Read(TableReader table)
        {
            AgentName = table.Text(0);
            ObservationNames = table.TextList(1);
            ActionNames = table.TextList(2);
            ObservationSize = table.UInt32(3);
            ActionSize = table.UInt32(4);
        }

        internal override void Write(TableWriter table)
        {
            table.Text(0, AgentName);
            table.TextList(1, ObservationNames);
            table.TextList(2, ActionNames);
            table.UInt32(3, ObservationSize);
            table.UInt32(4, ActionSize);
        }
    }

    /// <summary>Asks for an agent's schema; "" means `agent_0`.</summary>
    public sealed class GetAgentSchemaRequest : Message
    {
        public string AgentName { get; set; } = "";

        internal override void Read(TableReader table)
        {
            AgentName = table.Text(0);
        }

        internal override void Write(TableWriter table)
        {
            table.Text(0, AgentName);
        }
    }

    /// <summary>The agent's schema; sizes are 0 while no agent is registered.</summary>
    public sealed class GetAgentSchemaResponse : Message
    {
        public AgentSchema Schema { get; set; }

        internal override void Read(TableReader table)
        {
            Schema = table.Table<AgentSchema>(0);
        }

        internal override void Write(TableWriter table)
        {
            table.Table(0, Schema);
        }
    }

    /// <summary>Domain randomisation for the next reset. Empty ranges and zeros mean "leave as it is"; ranges are [low,
    /// high].</summary>
    public sealed class SimulationContract : Message
    {
        public float[] PosePositionNoise { get; set; } = new float[0];
        public float PoseOrientationNoise { get; set; }
        public float JointPositionNoise { get; set; }
        public float JointVelocityNoise { get; set; }
        public float[] FrictionRange { get; set; } = new float[0];
        public float[] RestitutionRange { get; set; } = new float[0];
        public float[] MassScaleRange { get; set; } = new float[0];
        public float[] ComOffsetRange { get; set; } = new float[0];
        public float[] MotorStrengthRange { get; set; } = new float[0];
        public float[] MotorOffsetRange { get; set; } = new float[0];
        public float[] PushIntervalRange { get; set; } = new float[0];
        public float[] PushVelocityRange { get; set; } = new float[0];
        public string TerrainType { get; set; } = "";
        public float TerrainDifficulty { get; set; }
        public float[] VelCommandXRange { get; set; } = new float[0];
        public float[] VelCommandYRange { get; set; } = new float[0];
        public float[] VelCommandYawRange { get; set; } = new float[0];
        public float[] VelCommandResamplingTimeRange { get; set; } = new float[0];
        public float VelCommandStandingProbability { get; set; }

        internal override void Read(TableReader table)
        {
            PosePositionNoise = table.SingleList(0);
            PoseOrientationNoise = table.Single(1);
            JointPositionNoise = table.Single(2);
            JointVelocityNoise = table.Single(3);
            FrictionRange = table.SingleList(4);
            RestitutionRange = table.SingleList(5);
            MassScaleRange = table.SingleList(6);
            ComOffsetRange = table.SingleList(7);
            MotorStrengthRange = table.SingleList(8);
            MotorOffsetRange = table.SingleList(9);
            PushIntervalRange = table.SingleList(10);
            PushVelocityRange = table.SingleList(11);
            TerrainType = table.Text(12);
            TerrainDifficulty = table.Single(13);
            VelCommandXRange = table.SingleList(14);
            VelCommandYRange = table.SingleList(15);
            VelCommandYawRange = table.SingleList(16);
            VelCommandResamplingTimeRange = table.SingleList(17);
            VelCommandStandingProbability = table.Single(18);
        }

        internal override void Write(TableWriter table)
        {
            table.SingleList(0, PosePositionNoise);
            table.Single(1, PoseOrientationNoise);
            table.Single(2, JointPositionNoise);
            table.Single(3, JointVelocityNoise);
            table.SingleList(4, FrictionRange);
            table.SingleList(5, RestitutionRange);
            table.SingleList(6, MassScaleRange);
            table.SingleList(7, ComOffsetRange);
            table.SingleList(8, MotorStrengthRange);
            table.SingleList(9, MotorOffsetRange);
            table.SingleList(10, PushIntervalRange);
            table.SingleList(11, PushVelocityRange);
            table.Text(12, TerrainType);
            table.Single(13, TerrainDifficulty);
            table.SingleList(14, VelCommandXRange);
            table.SingleList(15, VelCommandYRange);
            table.SingleList(16, VelCommandYawRange);
            table.SingleList(17, VelCommandResamplingTimeRange);
            table.Single(18, VelCommandStandingProbability);
        }
    }

    /// <summary>Resets one agent; the contract holds until another one is given. The first observation comes with the
    /// next step.</summary>
    public sealed class ResetAgentRequest : Message
    {
        public string AgentName { get; set; } = "";
        public SimulationContract SimulationContract { get; set; }

        internal override void Read(TableReader table)
        {
            AgentName = table.Text(0);
            SimulationContract = table.Table<SimulationContract>(1);
        }

        internal override void Write(TableWriter table)
        {
            table.Text(0, AgentName);
            table.Table(1, SimulationContract);
        }
    }

    /// <summary>Whether the agent was reset, else why not.</summary>
    public sealed class ResetAgentResponse : Message
    {
        public bool Success { get; set; }
        public string Message { get; set; } = "";

        internal override void Read(TableReader table)
        {
            Success = table.Bool(0);
            Message = table.Text(1);
        }

        internal override void Write(TableWriter table)
        {
            table.Bool(0, Success);
            table.Text(1, Message);
        }
    }

    /// <summary>What one agent observed after a tick.</summary>
    public sealed class AgentFrame : Message
    {
        public ulong TimestampMs { get; set; }
        public uint FrameNumber { get; set; }
        public float[] Observations { get; set; } = new float[0];
        public float[] Actions { get; set; } = new float[0];
        public string AgentName { get; set; } = "";
        public uint TargetFps { get; set; }

        internal override void Read(TableReader table)
        {
            TimestampMs = table.UInt64(0);
            FrameNumber = table.UInt32(1);
            Observations = table.SingleList(2);
            Actions = table.SingleList(3);
            AgentName = table.Text(4);
            TargetFps = table.UInt32(5);
        }

        internal override void Write(TableWriter table)
        {
            table.UInt64(0, TimestampMs);
            table.UInt32(1, FrameNumber);
            table.SingleList(2, Observations);
            table.SingleList(3, Actions);
            table.Text(4, AgentName);
            table.UInt32(5, TargetFps);
        }
    }

    /// <summary>An image to be rendered with a step, by camera entity or by name (`id` counts when given).</summary>
    public sealed class GetCameraFrameRequest : Message
    {
        public EntityId Id { get; set; }
        public string Name { get; set; } = "";
        public uint Width { get; set; }
        public uint Height { get; set; }
        public string Format { get; set; } = "";
        public CameraStreamKind Kind { get; set; }

        internal override void Read(TableReader table)
        {
            Id = table.Table<EntityId>(0);
            Name = table.Text(1);
            Width = table.UInt32(2);
            Height = table.UInt32(3);
            Format = table.Text(4);
            Kind = (CameraStreamKind)table.Int32(5);
        }

        internal override void Write(TableWriter table)
        {
            table.Table(0, Id);
            table.Text(1, Name);
            table.UInt32(2, Width);
            table.UInt32(3, Height);
            table.Text(4, Format);
            table.Int32(5, (int)Kind);
        }
    }

    /// <summary>Action values for a named subset of the action vector's indices.</summary>
    public sealed class ActionGroupEntry : Message
    {
        public string GroupName { get; set; } = "";
        public float[] Actions { get; set; } = new float[0];
        public int[] ActionIndices { get; set; } = new int[0];

        internal override void Read(TableReader table)
        {
            GroupName = table.Text(0);
            Actions = table.SingleList(1);
            ActionIndices = table.Int32List(2);
        }

        internal override void Write(TableWriter table)
        {
            table.Text(0, GroupName);
            table.SingleList(1, Actions);
            table.Int32List(2, ActionIndices);
        }
    }

    /// <summary>Preloads one group's actions for the agent's next step.</summary>
    public sealed class SetActionGroupRequest : Message
    {
        public string AgentName { get; set; } = "";
        public ActionGroupEntry Group { get; set; }

        internal override void Read(TableReader table)
        {
            AgentName = table.Text(0);
            Group = table.Table<ActionGroupEntry>(1);
        }

        internal override void Write(TableWriter table)
        {
            table.Text(0, AgentName);
            table.Table(1, Group);
        }
    }

    /// <summary>Whether the group was accepted, else why not.</summary>
    public sealed class SetActionGroupResponse : Message
    {
        public bool Success { get; set; }
        public string Message { get; set; } = "";

        internal override void Read(TableReader table)
        {
            Success = table.Bool(0);
            Message = table.Text(1);
        }

        internal override void Write(TableWriter table)
        {
            table.Bool(0, Success);
            table.Text(1, Message);
        }
    }

    /// <summary>One tick of one agent.</summary>
    public sealed class StepRequest : Message
    {
        public string AgentName { get; set; } = "";
        public float[] Actions { get; set; } = new float[0];
        public float TimeoutS { get; set; }
        public GetCameraFrameRequest[] CameraRequests { get; set; } = new GetCameraFrameRequest[0];
        public ActionGroupEntry[] ActionGroups { get; set; } = new ActionGroupEntry[0];

        internal override void Read(TableReader table)
        {
            AgentName = table.Text(0);
            Actions = table.SingleList(1);
            TimeoutS = table.Single(2);
            CameraRequests = table.TableList<GetCameraFrameRequest>(3);
            ActionGroups = table.TableList<ActionGroupEntry>(4);
        }

        internal override void Write(TableWriter table)
        {
            table.Text(0, AgentName);
            table.SingleList(1, Actions);
            table.Single(2, TimeoutS);
            table.TableList(3, CameraRequests);
            table.TableList(4, ActionGroups);
        }
    }

    /// <summary>What the tick produced; `success` is False when there was none, mostly because physics took too
    /// long.</summary>
    public sealed class StepResponse : Message
    {
        public bool Success { get; set; }
        public string Message { get; set; } = "";
        public AgentFrame Observation { get; set; }
        public ulong PhysicsStepDurationUs { get; set; }
        public NamedImageFrame[] CameraFrames { get; set; } = new NamedImageFrame[0];
        public Dictionary<string, float> RewardSignals { get; set; } = new Dictionary<string, float>();
        public bool Terminated { get; set; }
        public bool Truncated { get; set; }
        public Dictionary<string, float> Info { get; set; } = new Dictionary<string, float>();
        public Dictionary<string, bool> TerminationFlags { get; set; } = new Dictionary<string, bool>();

        internal override void Read(TableReader table)
        {
            Success = table.Bool(0);
            Message = table.Text(1);
            Observation = table.Table<AgentFrame>(2);
            PhysicsStepDurationUs = table.UInt64(3);
            CameraFrames = table.TableList<NamedImageFrame>(4);
            RewardSignals = table.SingleMap(5);
            Terminated = table.Bool(6);
            Truncated = table.Bool(7);
            Info = table.SingleMap(8);
            TerminationFlags = table.BoolMap(9);
        }

        internal override void Write(TableWriter table)
        {
            table.Bool(0, Success);
            table.Text(1, Message);
            table.Table(2, Observation);
            table.UInt64(3, PhysicsStepDurationUs);
            table.TableList(4, CameraFrames);
            table.SingleMap(5, RewardSignals);
            table.Bool(6, Terminated);
            table.Bool(7, Truncated);
            table.SingleMap(8, Info);
            table.BoolMap(9, TerminationFlags);
        }

        internal override void FindImages(List<ImageFrame> found)
        {
            foreach (var one in CameraFrames) one.FindImages(found);
        }
    }

    /// <summary>State of a training or evaluation run, for people to see; `elapsed_s` in seconds.</summary>
    public sealed class ProgressReport : Message
    {
        public string RunId { get; set; } = "";
        public string TaskName { get; set; } = "";
        public string PolicyName { get; set; } = "";
        public string Phase { get; set; } = "";
        public int CurrentEpisode { get; set; }
        public int TotalEpisodes { get; set; }
        public int CurrentStep { get; set; }
        public int MaxSteps { get; set; }
        public float ElapsedS { get; set; }
        public string StatusText { get; set; } = "";
        public bool Finished { get; set; }

        internal override void Read(TableReader table)
        {
            RunId = table.Text(0);
            TaskName = table.Text(1);
            PolicyName = table.Text(2);
            Phase = table.Text(3);
            CurrentEpisode = table.Int32(4);
            TotalEpisodes = table.Int32(5);
            CurrentStep = table.Int32(6);
            MaxSteps = table.Int32(7);
            ElapsedS = table.Single(8);
            StatusText = table.Text(9);
            Finished = table.Bool(10);
        }

        internal override void Write(TableWriter table)
        {
            table.Text(0, RunId);
            table.Text(1, TaskName);
            table.Text(2, PolicyName);
            table.Text(3, Phase);
            table.Int32(4, CurrentEpisode);
            table.Int32(5, TotalEpisodes);
            table.Int32(6, CurrentStep);
            table.Int32(7, MaxSteps);
            table.Single(8, ElapsedS);
            table.Text(9, StatusText);
            table.Bool(10, Finished);
        }
    }

    /// <summary>Whether the engine shows the report.</summary>
    public sealed class ProgressAck : Message
    {
        public bool Accepted { get; set; }

        internal override void Read(TableReader table)
        {
            Accepted = table.Bool(0);
        }

        internal override void Write(TableWriter table)
        {
            table.Bool(0, Accepted);
        }
    }

    /// <summary>What a task needs from the engine.</summary>
    public sealed class TaskContract : Message
    {
        public string TaskId { get; set; } = "";
        public string Robot { get; set; } = "";
        public string Scene { get; set; } = "";
        public ObservationContract Observations { get; set; }
        public ActionContract Actions { get; set; }
        public RewardContract Rewards { get; set; }
        public TerminationContract Terminations { get; set; }
        public RandomizationContract Randomization { get; set; }
        public AuxiliaryDataRequest[] AuxiliaryData { get; set; } = new AuxiliaryDataRequest[0];

        internal override void Read(TableReader table)
        {
            TaskId = table.Text(0);
            Robot = table.Text(1);
            Scene = table.Text(2);
            Observations = table.Table<ObservationContract>(3);
            Actions = table.Table<ActionContract>(4);
            Rewards = table.Table<RewardContract>(5);
            Terminations = table.Table<TerminationContract>(6);
            Randomization = table.Table<RandomizationContract>(7);
            AuxiliaryData = table.TableList<AuxiliaryDataRequest>(8);
        }

        internal override void Write(TableWriter table)
        {
            table.Text(0, TaskId);
            table.Text(1, Robot);
            table.Text(2, Scene);
            table.Table(3, Observations);
            table.Table(4, Actions);
            table.Table(5, Rewards);
            table.Table(6, Terminations);
            table.Table(7, Randomization);
            table.TableList(8, AuxiliaryData);
        }
    }

    /// <summary>Observation terms a task needs, and those it would like.</summary>
    public sealed class ObservationContract : Message
    {
        public ObservationTermRequest[] Required { get; set; } = new ObservationTermRequest[0];
        public ObservationTermRequest[] Optional { get; set; } = new ObservationTermRequest[0];

        internal override void Read(TableReader table)
        {
            Required = table.TableList<ObservationTermRequest>(0);
            Optional = table.TableList<ObservationTermRequest>(1);
        }

        internal override void Write(TableWriter table)
        {
            table.TableList(0, Required);
            table.TableList(1, Optional);
        }
    }

    /// <summary>One observation term asked for.</summary>
    public sealed class ObservationTermRequest : Message
    {
        public string Name { get; set; } = "";
        public Dictionary<string, string> Params { get; set; } = new Dictionary<string, string>();
        public string Group { get; set; } = "";

        internal override void Read(TableReader table)
        {
            Name = table.Text(0);
            Params = table.TextMap(1);
            Group = table.Text(2);
        }

        internal override void Write(TableWriter table)
        {
            table.Text(0, Name);
            table.TextMap(1, Params);
            table.Text(2, Group);
        }
    }

    /// <summary>Action terms a task uses.</summary>
    public sealed class ActionContract : Message
    {
        public ActionTermRequest[] Terms { get; set; } = new ActionTermRequest[0];

        internal override void Read(TableReader table)
        {
            Terms = table.TableList<ActionTermRequest>(0);
        }

        internal override void Write(TableWriter table)
        {
            table.TableList(0, Terms);
        }
    }

    /// <summary>One way to act on a set of joints.</summary>
    public sealed class ActionTermRequest : Message
    {
        public string Type { get; set; } = "";
        public string JointPattern { get; set; } = "";
        public Dictionary<string, string> Params { get; set; } = new Dictionary<string, string>();
        public string Group { get; set; } = "";

        internal override void Read(TableReader table)
        {
            Type = table.Text(0);
            JointPattern = table.Text(1);
            Params = table.TextMap(2);
            Group = table.Text(3);
        }

        internal override void Write(TableWriter table)
        {
            table.Text(0, Type);
            table.Text(1, JointPattern);
            table.TextMap(2, Params);
            table.Text(3, Group);
        }
    }

    /// <summary>Reward terms computed by the engine and names of those computed in Python.</summary>
    public sealed class RewardContract : Message
    {
        public RewardTermRequest[] EngineTerms { get; set; } = new RewardTermRequest[0];
        public string[] PythonTerms { get; set; } = new string[0];

        internal override void Read(TableReader table)
        {
            EngineTerms = table.TableList<RewardTermRequest>(0);
            PythonTerms = table.TextList(1);
        }

        internal override void Write(TableWriter table)
        {
            table.TableList(0, EngineTerms);
            table.TextList(1, PythonTerms);
        }
    }

    /// <summary>One reward term and its weight.</summary>
    public sealed class RewardTermRequest : Message
    {
        public string Name { get; set; } = "";
        public float Weight { get; set; }
        public Dictionary<string, string> Params { get; set; } = new Dictionary<string, string>();

        internal override void Read(TableReader table)
        {
            Name = table.Text(0);
            Weight = table.Single(1);
            Params = table.TextMap(2);
        }

        internal override void Write(TableWriter table)
        {
            table.Text(0, Name);
            table.Single(1, Weight);
            table.TextMap(2, Params);
        }
    }

    /// <summary>Termination terms a task uses.</summary>
    public sealed class TerminationContract : Message
    {
        public TerminationTermRequest[] Terms { get; set; } = new TerminationTermRequest[0];

        internal override void Read(TableReader table)
        {
            Terms = table.TableList<TerminationTermRequest>(0);
        }

        internal override void Write(TableWriter table)
        {
            table.TableList(0, Terms);
        }
    }

    /// <summary>One termination term; `is_timeout` makes it truncate instead of terminate.</summary>
    public sealed class TerminationTermRequest : Message
    {
        public string Name { get; set; } = "";
        public bool IsTimeout { get; set; }
        public Dictionary<string, string> Params { get; set; } = new Dictionary<string, string>();

        internal override void Read(TableReader table)
        {
            Name = table.Text(0);
            IsTimeout = table.Bool(1);
            Params = table.TextMap(2);
        }

        internal override void Write(TableWriter table)
        {
            table.Text(0, Name);
            table.Bool(1, IsTimeout);
            table.TextMap(2, Params);
        }
    }

    /// <summary>Randomisation of a task: a serialised SimulationContract and custom ranges.</summary>
    public sealed class RandomizationContract : Message
    {
        public byte[] SimulationContractBytes { get; set; } = new byte[0];
        public CustomRandomization[] CustomRandomizations { get; set; } = new CustomRandomization[0];

        internal override void Read(TableReader table)
        {
            SimulationContractBytes = table.Bytes(0);
            CustomRandomizations = table.TableList<CustomRandomization>(1);
        }

        internal override void Write(TableWriter table)
        {
            table.Bytes(0, SimulationContractBytes);
            table.TableList(1, CustomRandomizations);
        }
    }

    /// <summary>A named range to randomise, for engines that know the name.</summary>
    public sealed class CustomRandomization : Message
    {
        public string Name { get; set; } = "";
        public float RangeMin { get; set; }
        public float RangeMax { get; set; }
        public string Target { get; set; } = "";

        internal override void Read(TableReader table)
        {
            Name = table.Text(0);
            RangeMin = table.Single(1);
            RangeMax = table.Single(2);
            Target = table.Text(3);
        }

        internal override void Write(TableWriter table)
        {
            table.Text(0, Name);
            table.Single(1, RangeMin);
            table.Single(2, RangeMax);
            table.Text(3, Target);
        }
    }

    /// <summary>Extra data asked for beside the observation.</summary>
    public sealed class AuxiliaryDataRequest : Message
    {
        public string Name { get; set; } = "";
        public Dictionary<string, string> Params { get; set; } = new Dictionary<string, string>();

        internal override void Read(TableReader table)
        {
            Name = table.Text(0);
            Params = table.TextMap(1);
        }

        internal override void Write(TableWriter table)
        {
            table.Text(0, Name);
            table.TextMap(1, Params);
        }
    }

    /// <summary>Everything a task contract may ask this engine for.</summary>
    public sealed class EngineCapabilityManifest : Message
    {
        public string EngineVersion { get; set; } = "";
        public int ManifestVersion { get; set; }
        public MdpComponentDescriptor[] Observations { get; set; } = new MdpComponentDescriptor[0];
        public MdpComponentDescriptor[] Actions { get; set; } = new MdpComponentDescriptor[0];
        public MdpComponentDescriptor[] Rewards { get; set; } = new MdpComponentDescriptor[0];
        public MdpComponentDescriptor[] Terminations { get; set; } = new MdpComponentDescriptor[0];
        public MdpRandomizationDescriptor[] Randomizations { get; set; } = new MdpRandomizationDescriptor[0];
        public MdpComponentDescriptor[] AuxiliaryData { get; set; } = new MdpComponentDescriptor[0];
        public MdpRobotInfo RobotInfo { get; set; }

        internal override void Read(TableReader table)
        {
            EngineVersion = table.Text(0);
            ManifestVersion = table.Int32(1);
            Observations = table.TableList<MdpComponentDescriptor>(2);
            Actions = table.TableList<MdpComponentDescriptor>(3);
            Rewards = table.TableList<MdpComponentDescriptor>(4);
            Terminations = table.TableList<MdpComponentDescriptor>(5);
            Randomizations = table.TableList<MdpRandomizationDescriptor>(6);
            AuxiliaryData = table.TableList<MdpComponentDescriptor>(7);
            RobotInfo = table.Table<MdpRobotInfo>(8);
        }

        internal override void Write(TableWriter table)
        {
            table.Text(0, EngineVersion);
            table.Int32(1, ManifestVersion);
            table.TableList(2, Observations);
            table.TableList(3, Actions);
            table.TableList(4, Rewards);
            table.TableList(5, Terminations);
            table.TableList(6, Randomizations);
            table.TableList(7, AuxiliaryData);
            table.Table(8, RobotInfo);
        }
    }

    /// <summary>One observation, action, reward or termination term on offer.</summary>
    public sealed class MdpComponentDescriptor : Message
    {
        public string Name { get; set; } = "";
        public string Description { get; set; } = "";
        public string Category { get; set; } = "";
        public Dictionary<string, MdpParamDescriptor> ParamsSchema { get; set; } = new Dictionary<string, MdpParamDescriptor>();
        public int[] OutputShape { get; set; } = new int[0];
        public string[] Requires { get; set; } = new string[0];
        public string[] RobotTypes { get; set; } = new string[0];

        internal override void Read(TableReader table)
        {
            Name = table.Text(0);
            Description = table.Text(1);
            Category = table.Text(2);
            ParamsSchema = table.TableMap<MdpParamDescriptor>(3);
            OutputShape = table.Int32List(4);
            Requires = table.TextList(5);
            RobotTypes = table.TextList(6);
        }

        internal override void Write(TableWriter table)
        {
            table.Text(0, Name);
            table.Text(1, Description);
            table.Text(2, Category);
            table.TableMap(3, ParamsSchema);
            table.Int32List(4, OutputShape);
            table.TextList(5, Requires);
            table.TextList(6, RobotTypes);
        }
    }

    /// <summary>One parameter of a component: type, default and legal range (when `has_range`); values travel as
    /// text.</summary>
    public sealed class MdpParamDescriptor : Message
    {
        public string Type { get; set; } = "";
        public string DefaultValue { get; set; } = "";
        public string Description { get; set; } = "";
        public float RangeMin { get; set; }
        public float RangeMax { get; set; }
        public bool HasRange { get; set; }

        internal override void Read(TableReader table)
        {
            Type = table.Text(0);
            DefaultValue = table.Text(1);
            Description = table.Text(2);
            RangeMin = table.Single(3);
            RangeMax = table.Single(4);
            HasRange = table.Bool(5);
        }

        internal override void Write(TableWriter table)
        {
            table.Text(0, Type);
            table.Text(1, DefaultValue);
            table.Text(2, Description);
            table.Single(3, RangeMin);
            table.Single(4, RangeMax);
            table.Bool(5, HasRange);
        }
    }

    /// <summary>One quantity that can be randomised, with its default range.</summary>
    public sealed class MdpRandomizationDescriptor : Message
    {
        public MdpComponentDescriptor Base { get; set; }
        public float DefaultRangeMin { get; set; }
        public float DefaultRangeMax { get; set; }
        public string EngineTarget { get; set; } = "";

        internal override void Read(TableReader table)
        {
            Base = table.Table<MdpComponentDescriptor>(0);
            DefaultRangeMin = table.Single(1);
            DefaultRangeMax = table.Single(2);
            EngineTarget = table.Text(3);
        }

        internal override void Write(TableWriter table)
        {
            table.Table(0, Base);
            table.Single(1, DefaultRangeMin);
            table.Single(2, DefaultRangeMax);
            table.Text(3, EngineTarget);
        }
    }

    /// <summary>The robot's names and limits.</summary>
    public sealed class MdpRobotInfo : Message
    {
        public string Name { get; set; } = "";
        public string[] JointNames { get; set; } = new string[0];
        public string[] ActuatorNames { get; set; } = new string[0];
        public MdpActuatorLimit[] ActuatorLimits { get; set; } = new MdpActuatorLimit[0];
        public string[] BodyNames { get; set; } = new string[0];
        public string[] SiteNames { get; set; } = new string[0];
        public string[] SensorNames { get; set; } = new string[0];
        public string[] AvailableScenes { get; set; } = new string[0];

        internal override void Read(TableReader table)
        {
            Name = table.Text(0);
            JointNames = table.TextList(1);
            ActuatorNames = table.TextList(2);
            ActuatorLimits = table.TableList<MdpActuatorLimit>(3);
            BodyNames = table.TextList(4);
            SiteNames = table.TextList(5);
            SensorNames = table.TextList(6);
            AvailableScenes = table.TextList(7);
        }

        internal override void Write(TableWriter table)
        {
            table.Text(0, Name);
            table.TextList(1, JointNames);
            table.TextList(2, ActuatorNames);
            table.TableList(3, ActuatorLimits);
            table.TextList(4, BodyNames);
            table.TextList(5, SiteNames);
            table.TextList(6, SensorNames);
            table.TextList(7, AvailableScenes);
        }
    }

    /// <summary>Control range of one actuator, in the actuator's own unit.</summary>
    public sealed class MdpActuatorLimit : Message
    {
        public float Lower { get; set; }
        public float Upper { get; set; }
        public float DefaultValue { get; set; }
        public float Scale { get; set; }

        internal override void Read(TableReader table)
        {
            Lower = table.Single(0);
            Upper = table.Single(1);
            DefaultValue = table.Single(2);
            Scale = table.Single(3);
        }

        internal override void Write(TableWriter table)
        {
            table.Single(0, Lower);
            table.Single(1, Upper);
            table.Single(2, DefaultValue);
            table.Single(3, Scale);
        }
    }

    /// <summary>Whether the contract can be met, and every finding.</summary>
    public sealed class ContractValidationResult : Message
    {
        public bool IsValid { get; set; }
        public TaskContract NegotiatedContract { get; set; }
        public ContractValidationMessage[] Errors { get; set; } = new ContractValidationMessage[0];
        public ContractValidationMessage[] Warnings { get; set; } = new ContractValidationMessage[0];
        public string[] ResolvedOptionals { get; set; } = new string[0];
        public string[] UnresolvedOptionals { get; set; } = new string[0];

        internal override void Read(TableReader table)
        {
            IsValid = table.Bool(0);
            NegotiatedContract = table.Table<TaskContract>(1);
            Errors = table.TableList<ContractValidationMessage>(2);
            Warnings = table.TableList<ContractValidationMessage>(3);
            ResolvedOptionals = table.TextList(4);
            UnresolvedOptionals = table.TextList(5);
        }

        internal override void Write(TableWriter table)
        {
            table.Bool(0, IsValid);
            table.Table(1, NegotiatedContract);
            table.TableList(2, Errors);
            table.TableList(3, Warnings);
            table.TextList(4, ResolvedOptionals);
            table.TextList(5, UnresolvedOptionals);
        }
    }

    /// <summary>One finding about a contract; `suggestion` is the nearest known name.</summary>
    public sealed class ContractValidationMessage : Message
    {
        public string Severity { get; set; } = "";
        public string Component { get; set; } = "";
        public string TermName { get; set; } = "";
        public string Message { get; set; } = "";
        public string Suggestion { get; set; } = "";

        internal override void Read(TableReader table)
        {
            Severity = table.Text(0);
            Component = table.Text(1);
            TermName = table.Text(2);
            Message = table.Text(3);
            Suggestion = table.Text(4);
        }

        internal override void Write(TableWriter table)
        {
            table.Text(0, Severity);
            table.Text(1, Component);
            table.Text(2, TermName);
            table.Text(3, Message);
            table.Text(4, Suggestion);
        }
    }

    /// <summary>The contract in force and the layout that follows from it.</summary>
    public sealed class NegotiatedTaskSession : Message
    {
        public string SessionId { get; set; } = "";
        public TaskContract ResolvedContract { get; set; }
        public ObservationSlot[] ObservationLayout { get; set; } = new ObservationSlot[0];
        public string[] RewardTerms { get; set; } = new string[0];
        public string[] TerminationTerms { get; set; } = new string[0];
        public ActionGroupSlot[] ActionLayout { get; set; } = new ActionGroupSlot[0];

        internal override void Read(TableReader table)
        {
            SessionId = table.Text(0);
            ResolvedContract = table.Table<TaskContract>(1);
            ObservationLayout = table.TableList<ObservationSlot>(2);
            RewardTerms = table.TextList(3);
            TerminationTerms = table.TextList(4);
            ActionLayout = table.TableList<ActionGroupSlot>(5);
        }

        internal override void Write(TableWriter table)
        {
            table.Text(0, SessionId);
            table.Table(1, ResolvedContract);
            table.TableList(2, ObservationLayout);
            table.TextList(3, RewardTerms);
            table.TextList(4, TerminationTerms);
            table.TableList(5, ActionLayout);
        }
    }

    /// <summary>Where one observation term lies in the flat vector, in elements.</summary>
    public sealed class ObservationSlot : Message
    {
        public string Name { get; set; } = "";
        public string Group { get; set; } = "";
        public int Offset { get; set; }
        public int Size { get; set; }

        internal override void Read(TableReader table)
        {
            Name = table.Text(0);
            Group = table.Text(1);
            Offset = table.Int32(2);
            Size = table.Int32(3);
        }

        internal override void Write(TableWriter table)
        {
            table.Text(0, Name);
            table.Text(1, Group);
            table.Int32(2, Offset);
            table.Int32(3, Size);
        }
    }

    /// <summary>Which elements of the action vector one group drives.</summary>
    public sealed class ActionGroupSlot : Message
    {
        public string GroupName { get; set; } = "";
        public string[] ActionNames { get; set; } = new string[0];
        public int[] ActionIndices { get; set; } = new int[0];

        internal override void Read(TableReader table)
        {
            GroupName = table.Text(0);
            ActionNames = table.TextList(1);
            ActionIndices = table.Int32List(2);
        }

        internal override void Write(TableWriter table)
        {
            table.Text(0, GroupName);
            table.TextList(1, ActionNames);
            table.Int32List(2, ActionIndices);
        }
    }

    /// <summary>Asks what tasks the engine can compose; empty names mean the loaded robot and scene.</summary>
    public sealed class GetCapabilityManifestRequest : Message
    {
        public string RobotName { get; set; } = "";
        public string Scene { get; set; } = "";

        internal override void Read(TableReader table)
        {
            RobotName = table.Text(0);
            Scene = table.Text(1);
        }

        internal override void Write(TableWriter table)
        {
            table.Text(0, RobotName);
            table.Text(1, Scene);
        }
    }

    /// <summary>The manifest.</summary>
    public sealed class GetCapabilityManifestResponse : Message
    {
        public EngineCapabilityManifest Manifest { get; set; }

        internal override void Read(TableReader table)
        {
            Manifest = table.Table<EngineCapabilityManifest>(0);
        }

        internal override void Write(TableWriter table)
        {
            table.Table(0, Manifest);
        }
    }

    /// <summary>Asks whether a contract can be met, without changing anything.</summary>
    public sealed class ValidateTaskContractRequest : Message
    {
        public TaskContract Contract { get; set; }

        internal override void Read(TableReader table)
        {
            Contract = table.Table<TaskContract>(0);
        }

        internal override void Write(TableWriter table)
        {
            table.Table(0, Contract);
        }
    }

    /// <summary>The findings.</summary>
    public sealed class ValidateTaskContractResponse : Message
    {
        public ContractValidationResult Result { get; set; }

        internal override void Read(TableReader table)
        {
            Result = table.Table<ContractValidationResult>(0);
        }

        internal override void Write(TableWriter table)
        {
            table.Table(0, Result);
        }
    }

    /// <summary>Puts a contract in force for the following steps.</summary>
    public sealed class NegotiateTaskRequest : Message
    {
        public TaskContract Contract { get; set; }

        internal override void Read(TableReader table)
        {
            Contract = table.Table<TaskContract>(0);
        }

        internal override void Write(TableWriter table)
        {
            table.Table(0, Contract);
        }
    }

    /// <summary>The session, or why the contract was refused.</summary>
    public sealed class NegotiateTaskResponse : Message
    {
        public bool Success { get; set; }
        public string Message { get; set; } = "";
        public NegotiatedTaskSession Session { get; set; }
        public ContractValidationResult Validation { get; set; }

        internal override void Read(TableReader table)
        {
            Success = table.Bool(0);
            Message = table.Text(1);
            Session = table.Table<NegotiatedTaskSession>(2);
            Validation = table.Table<ContractValidationResult>(3);
        }

        internal override void Write(TableWriter table)
        {
            table.Bool(0, Success);
            table.Text(1, Message);
            table.Table(2, Session);
            table.Table(3, Validation);
        }
    }

    /// <summary>A command that a policy understands; calls name it by `id`.</summary>
    public sealed class PolicyCommandIdEntry : Message
    {
        public uint Id { get; set; }
        public string Name { get; set; } = "";
        public PolicyCommandType Type { get; set; }

        internal override void Read(TableReader table)
        {
            Id = table.UInt32(0);
            Name = table.Text(1);
            Type = (PolicyCommandType)table.Int32(2);
        }

        internal override void Write(TableWriter table)
        {
            table.UInt32(0, Id);
            table.Text(1, Name);
            table.Int32(2, (int)Type);
        }
    }

    /// <summary>One input of a policy: its type by name, its size in values.</summary>
    public sealed class PolicyObservationField : Message
    {
        public string Name { get; set; } = "";
        public string Type { get; set; } = "";
        public uint Size { get; set; }

        internal override void Read(TableReader table)
        {
            Name = table.Text(0);
            Type = table.Text(1);
            Size = table.UInt32(2);
        }

        internal override void Write(TableWriter table)
        {
            table.Text(0, Name);
            table.Text(1, Type);
            table.UInt32(2, Size);
        }
    }

    /// <summary>One slot of a robot controller and the policy in it.</summary>
    public sealed class PolicySlotSummary : Message
    {
        public uint SlotId { get; set; }
        public string Name { get; set; } = "";
        public string DescriptorPath { get; set; } = "";
        public bool Active { get; set; }
        public int Priority { get; set; }
        public string[] DrivenJoints { get; set; } = new string[0];
        public bool ClampObservationForUnclaimedJoints { get; set; }
        public bool Ready { get; set; }
        public string ActivePolicyId { get; set; } = "";
        public PolicyCommandIdEntry[] CommandIdMap { get; set; } = new PolicyCommandIdEntry[0];
        public string[] PolicyJointNames { get; set; } = new string[0];

        internal override void Read(TableReader table)
        {
            SlotId = table.UInt32(0);
            Name = table.Text(1);
            DescriptorPath = table.Text(2);
            Active = table.Bool(3);
            Priority = table.Int32(4);
            DrivenJoints = table.TextList(5);
            ClampObservationForUnclaimedJoints = table.Bool(6);
            Ready = table.Bool(7);
            ActivePolicyId = table.Text(8);
            CommandIdMap = table.TableList<PolicyCommandIdEntry>(9);
            PolicyJointNames = table.TextList(10);
        }

        internal override void Write(TableWriter table)
        {
            table.UInt32(0, SlotId);
            table.Text(1, Name);
            table.Text(2, DescriptorPath);
            table.Bool(3, Active);
            table.Int32(4, Priority);
            table.TextList(5, DrivenJoints);
            table.Bool(6, ClampObservationForUnclaimedJoints);
            table.Bool(7, Ready);
            table.Text(8, ActivePolicyId);
            table.TableList(9, CommandIdMap);
            table.TextList(10, PolicyJointNames);
        }
    }

    /// <summary>One robot, whether its motion graph is on, and its slots.</summary>
    public sealed class RobotControllerSummary : Message
    {
        public EntityId Entity { get; set; }
        public string EntityName { get; set; } = "";
        public bool MotionGraphActive { get; set; }
        public PolicySlotSummary[] Slots { get; set; } = new PolicySlotSummary[0];

        internal override void Read(TableReader table)
        {
            Entity = table.Table<EntityId>(0);
            EntityName = table.Text(1);
            MotionGraphActive = table.Bool(2);
            Slots = table.TableList<PolicySlotSummary>(3);
        }

        internal override void Write(TableWriter table)
        {
            table.Table(0, Entity);
            table.Text(1, EntityName);
            table.Bool(2, MotionGraphActive);
            table.TableList(3, Slots);
        }
    }

    /// <summary>One policy on offer; a slot takes it by its `descriptor_path`.</summary>
    public sealed class PolicyRegistryEntry : Message
    {
        public string PolicyId { get; set; } = "";
        public string DescriptorPath { get; set; } = "";
        public string[] Joints { get; set; } = new string[0];
        public PolicyCommandIdEntry[] CommandIdMap { get; set; } = new PolicyCommandIdEntry[0];
        public PolicyObservationField[] ObservationSpec { get; set; } = new PolicyObservationField[0];
        public string[] FreezeJointNames { get; set; } = new string[0];
        public Dictionary<string, string> CommandAliases { get; set; } = new Dictionary<string, string>();

        internal override void Read(TableReader table)
        {
            PolicyId = table.Text(0);
            DescriptorPath = table.Text(1);
            Joints = table.TextList(2);
            CommandIdMap = table.TableList<PolicyCommandIdEntry>(3);
            ObservationSpec = table.TableList<PolicyObservationField>(4);
            FreezeJointNames = table.TextList(5);
            CommandAliases = table.TextMap(6);
        }

        internal override void Write(TableWriter table)
        {
            table.Text(0, PolicyId);
            table.Text(1, DescriptorPath);
            table.TextList(2, Joints);
            table.TableList(3, CommandIdMap);
            table.TableList(4, ObservationSpec);
            table.TextList(5, FreezeJointNames);
            table.TextMap(6, CommandAliases);
        }
    }

    /// <summary>Value of an input; the field of the input's type is given, the others are None.</summary>
    public sealed class MotionGraphInputValue : Message
    {
        public bool? BoolVal { get; set; }
        public int? IntVal { get; set; }
        public float? FloatVal { get; set; }
        public Vec3 Vec3Val { get; set; }
        public bool? Trigger { get; set; }

        internal override void Read(TableReader table)
        {
            BoolVal = table.BoolOrNull(0);
            IntVal = table.Int32OrNull(1);
            FloatVal = table.SingleOrNull(2);
            Vec3Val = table.Struct<Vec3>(3);
            Trigger = table.BoolOrNull(4);
        }

        internal override void Write(TableWriter table)
        {
            table.BoolOrNull(0, BoolVal);
            table.Int32OrNull(1, IntVal);
            table.SingleOrNull(2, FloatVal);
            table.Struct(3, Vec3Val);
            table.BoolOrNull(4, Trigger);
        }
    }

    /// <summary>Whether the change was made, else why not.</summary>
    public sealed class PolicyOperationAck : Message
    {
        public bool Success { get; set; }
        public string Message { get; set; } = "";

        internal override void Read(TableReader table)
        {
            Success = table.Bool(0);
            Message = table.Text(1);
        }

        internal override void Write(TableWriter table)
        {
            table.Bool(0, Success);
            table.Text(1, Message);
        }
    }

    /// <summary>Asks for all robots that have a controller.</summary>
    public sealed class ListRobotControllersRequest : Message
    {
        internal override void Read(TableReader table) { }

        internal override void Write(TableWriter table) { }
    }

    /// <summary>All robots that have a controller, in the engine's order.</summary>
    public sealed class ListRobotControllersResponse : Message
    {
        public RobotControllerSummary[] Controllers { get; set; } = new RobotControllerSummary[0];

        internal override void Read(TableReader table)
        {
            Controllers = table.TableList<RobotControllerSummary>(0);
        }

        internal override void Write(TableWriter table)
        {
            table.TableList(0, Controllers);
        }
    }

    /// <summary>Asks for one robot's controller.</summary>
    public sealed class GetRobotControllerRequest : Message
    {
        public EntityId Entity { get; set; }

        internal override void Read(TableReader table)
        {
            Entity = table.Table<EntityId>(0);
        }

        internal override void Write(TableWriter table)
        {
            table.Table(0, Entity);
        }
    }

    /// <summary>The controller; `found` is False where the entity is no robot.</summary>
    public sealed class GetRobotControllerResponse : Message
    {
        public bool Found { get; set; }
        public RobotControllerSummary Controller { get; set; }

        internal override void Read(TableReader table)
        {
            Found = table.Bool(0);
            Controller = table.Table<RobotControllerSummary>(1);
        }

        internal override void Write(TableWriter table)
        {
            table.Bool(0, Found);
            table.Table(1, Controller);
        }
    }

    /// <summary>Asks for all policies on offer.</summary>
    public sealed class ListPolicyDescriptorsRequest : Message
    {
        internal override void Read(TableReader table) { }

        internal override void Write(TableWriter table) { }
    }

    /// <summary>All policies on offer.</summary>
    public sealed class ListPolicyDescriptorsResponse : Message
    {
        public PolicyRegistryEntry[] Policies { get; set; } = new PolicyRegistryEntry[0];

        internal override void Read(TableReader table)
        {
            Policies = table.TableList<PolicyRegistryEntry>(0);
        }

        internal override void Write(TableWriter table)
        {
            table.TableList(0, Policies);
        }
    }

    /// <summary>Starts or stops the policy in a slot.</summary>
    public sealed class SetPolicyActiveRequest : Message
    {
        public EntityId Entity { get; set; }
        public uint SlotId { get; set; }
        public bool Active { get; set; }

        internal override void Read(TableReader table)
        {
            Entity = table.Table<EntityId>(0);
            SlotId = table.UInt32(1);
            Active = table.Bool(2);
        }

        internal override void Write(TableWriter table)
        {
            table.Table(0, Entity);
            table.UInt32(1, SlotId);
            table.Bool(2, Active);
        }
    }

    /// <summary>Puts another policy into a slot; overridden gains are dropped.</summary>
    public sealed class SetPolicyDescriptorRequest : Message
    {
        public EntityId Entity { get; set; }
        public uint SlotId { get; set; }
        public string DescriptorPath { get; set; } = "";

        internal override void Read(TableReader table)
        {
            Entity = table.Table<EntityId>(0);
            SlotId = table.UInt32(1);
            DescriptorPath = table.Text(2);
        }

        internal override void Write(TableWriter table)
        {
            table.Table(0, Entity);
            table.UInt32(1, SlotId);
            table.Text(2, DescriptorPath);
        }
    }

    /// <summary>Chooses the joints that a slot drives: exact names, no patterns.</summary>
    public sealed class SetPolicyDrivenJointsRequest : Message
    {
        public EntityId Entity { get; set; }
        public uint SlotId { get; set; }
        public string[] JointNames { get; set; } = new string[0];

        internal override void Read(TableReader table)
        {
            Entity = table.Table<EntityId>(0);
            SlotId = table.UInt32(1);
            JointNames = table.TextList(2);
        }

        internal override void Write(TableWriter table)
        {
            table.Table(0, Entity);
            table.UInt32(1, SlotId);
            table.TextList(2, JointNames);
        }
    }

    /// <summary>Chooses whether a slot's policy sees joints that it does not drive at their defaults.</summary>
    public sealed class SetPolicyClampObservationRequest : Message
    {
        public EntityId Entity { get; set; }
        public uint SlotId { get; set; }
        public bool ClampObservationForUnclaimedJoints { get; set; }

        internal override void Read(TableReader table)
        {
            Entity = table.Table<EntityId>(0);
            SlotId = table.UInt32(1);
            ClampObservationForUnclaimedJoints = table.Bool(2);
        }

        internal override void Write(TableWriter table)
        {
            table.Table(0, Entity);
            table.UInt32(1, SlotId);
            table.Bool(2, ClampObservationForUnclaimedJoints);
        }
    }

    /// <summary>Sets a slot's priority: where two active slots claim a joint, the higher one drives it.</summary>
    public sealed class SetPolicyPriorityRequest : Message
    {
        public EntityId Entity { get; set; }
        public uint SlotId { get; set; }
        public int Priority { get; set; }

        internal override void Read(TableReader table)
        {
            Entity = table.Table<EntityId>(0);
            SlotId = table.UInt32(1);
            Priority = table.Int32(2);
        }

        internal override void Write(TableWriter table)
        {
            table.Table(0, Entity);
            table.UInt32(1, SlotId);
            table.Int32(2, Priority);
        }
    }

    /// <summary>Tells a policy what to do, as a number in the command's own unit (a forward speed in m/s, for
    /// instance).</summary>
    public sealed class SetPolicyCommandFloatRequest : Message
    {
        public EntityId Entity { get; set; }
        public uint SlotId { get; set; }
        public uint CommandId { get; set; }
        public float Value { get; set; }

        internal override void Read(TableReader table)
        {
            Entity = table.Table<EntityId>(0);
            SlotId = table.UInt32(1);
            CommandId = table.UInt32(2);
            Value = table.Single(3);
        }

        internal override void Write(TableWriter table)
        {
            table.Table(0, Entity);
            table.UInt32(1, SlotId);
            table.UInt32(2, CommandId);
            table.Single(3, Value);
        }
    }

    /// <summary>Tells a policy what to do, as yes or no.</summary>
    public sealed class SetPolicyCommandBoolRequest : Message
    {
        public EntityId Entity { get; set; }
        public uint SlotId { get; set; }
        public uint CommandId { get; set; }
        public bool Value { get; set; }

        internal override void Read(TableReader table)
        {
            Entity = table.Table<EntityId>(0);
            SlotId = table.UInt32(1);
            CommandId = table.UInt32(2);
            Value = table.Bool(3);
        }

        internal override void Write(TableWriter table)
        {
            table.Table(0, Entity);
            table.UInt32(1, SlotId);
            table.UInt32(2, CommandId);
            table.Bool(3, Value);
        }
    }

    /// <summary>New gains of one joint; None keeps the policy's own value. A joint that the policy does not know is
    /// ignored.</summary>
    public sealed class JointGainOverride : Message
    {
        public string JointName { get; set; } = "";
        public float? Kp { get; set; }
        public float? Kd { get; set; }
        public float? EffortLimit { get; set; }
        public float? ActionScale { get; set; }
        public float? DefaultPos { get; set; }

        internal override void Read(TableReader table)
        {
            JointName = table.Text(0);
            Kp = table.SingleOrNull(1);
            Kd = table.SingleOrNull(2);
            EffortLimit = table.SingleOrNull(3);
            ActionScale = table.SingleOrNull(4);
            DefaultPos = table.SingleOrNull(5);
        }

        internal override void Write(TableWriter table)
        {
            table.Text(0, JointName);
            table.SingleOrNull(1, Kp);
            table.SingleOrNull(2, Kd);
            table.SingleOrNull(3, EffortLimit);
            table.SingleOrNull(4, ActionScale);
            table.SingleOrNull(5, DefaultPos);
        }
    }

    /// <summary>Overrides gains until ClearPolicyGains or a change of the slot's policy.</summary>
    public sealed class SetPolicyGainsRequest : Message
    {
        public EntityId Entity { get; set; }
        public uint SlotId { get; set; }
        public JointGainOverride[] Overrides { get; set; } = new JointGainOverride[0];

        internal override void Read(TableReader table)
        {
            Entity = table.Table<EntityId>(0);
            SlotId = table.UInt32(1);
            Overrides = table.TableList<JointGainOverride>(2);
        }

        internal override void Write(TableWriter table)
        {
            table.Table(0, Entity);
            table.UInt32(1, SlotId);
            table.TableList(2, Overrides);
        }
    }

    /// <summary>Gives all joints of a slot the policy's own gains again.</summary>
    public sealed class ClearPolicyGainsRequest : Message
    {
        public EntityId Entity { get; set; }
        public uint SlotId { get; set; }

        internal override void Read(TableReader table)
        {
            Entity = table.Table<EntityId>(0);
            SlotId = table.UInt32(1);
        }

        internal override void Write(TableWriter table)
        {
            table.Table(0, Entity);
            table.UInt32(1, SlotId);
        }
    }

    /// <summary>Asks for the present value of a command that is a number.</summary>
    public sealed class GetPolicyCommandFloatRequest : Message
    {
        public EntityId Entity { get; set; }
        public uint SlotId { get; set; }
        public uint CommandId { get; set; }

        internal override void Read(TableReader table)
        {
            Entity = table.Table<EntityId>(0);
            SlotId = table.UInt32(1);
            CommandId = table.UInt32(2);
        }

        internal override void Write(TableWriter table)
        {
            table.Table(0, Entity);
            table.UInt32(1, SlotId);
            table.UInt32(2, CommandId);
        }
    }

    /// <summary>The command's value in its own unit, or why there is none.</summary>
    public sealed class PolicyCommandFloatValue : Message
    {
        public bool Success { get; set; }
        public float Value { get; set; }
        public string Message { get; set; } = "";

        internal override void Read(TableReader table)
        {
            Success = table.Bool(0);
            Value = table.Single(1);
            Message = table.Text(2);
        }

        internal override void Write(TableWriter table)
        {
            table.Bool(0, Success);
            table.Single(1, Value);
            table.Text(2, Message);
        }
    }

    /// <summary>Asks for the present value of a command that is yes or no.</summary>
    public sealed class GetPolicyCommandBoolRequest : Message
    {
        public EntityId Entity { get; set; }
        public uint SlotId { get; set; }
        public uint CommandId { get; set; }

        internal override void Read(TableReader table)
        {
            Entity = table.Table<EntityId>(0);
            SlotId = table.UInt32(1);
            CommandId = table.UInt32(2);
        }

        internal override void Write(TableWriter table)
        {
            table.Table(0, Entity);
            table.UInt32(1, SlotId);
            table.UInt32(2, CommandId);
        }
    }

    /// <summary>The command's value, or why there is none.</summary>
    public sealed class PolicyCommandBoolValue : Message
    {
        public bool Success { get; set; }
        public bool Value { get; set; }
        public string Message { get; set; } = "";

        internal override void Read(TableReader table)
        {
            Success = table.Bool(0);
            Value = table.Bool(1);
            Message = table.Text(2);
        }

        internal override void Write(TableWriter table)
        {
            table.Bool(0, Success);
            table.Bool(1, Value);
            table.Text(2, Message);
        }
    }

    /// <summary>Switches a robot's motion graph on or off.</summary>
    public sealed class SetMotionGraphActiveRequest : Message
    {
        public EntityId Entity { get; set; }
        public bool Active { get; set; }

        internal override void Read(TableReader table)
        {
            Entity = table.Table<EntityId>(0);
            Active = table.Bool(1);
        }

        internal override void Write(TableWriter table)
        {
            table.Table(0, Entity);
            table.Bool(1, Active);
        }
    }

    /// <summary>Asks whether a robot's motion graph is on.</summary>
    public sealed class GetMotionGraphActiveRequest : Message
    {
        public EntityId Entity { get; set; }

        internal override void Read(TableReader table)
        {
            Entity = table.Table<EntityId>(0);
        }

        internal override void Write(TableWriter table)
        {
            table.Table(0, Entity);
        }
    }

    /// <summary>Whether the motion graph is on, or why there is no answer.</summary>
    public sealed class GetMotionGraphActiveResponse : Message
    {
        public bool Success { get; set; }
        public bool Active { get; set; }
        public string Message { get; set; } = "";

        internal override void Read(TableReader table)
        {
            Success = table.Bool(0);
            Active = table.Bool(1);
            Message = table.Text(2);
        }

        internal override void Write(TableWriter table)
        {
            table.Bool(0, Success);
            table.Bool(1, Active);
            table.Text(2, Message);
        }
    }

    /// <summary>Sets one input of a robot's motion graph; no method lists the inputs, their ids come from the graph's
    /// author.</summary>
    public sealed class SetMotionGraphInputRequest : Message
    {
        public EntityId Entity { get; set; }
        public uint InputId { get; set; }
        public MotionGraphInputValue Value { get; set; }

        internal override void Read(TableReader table)
        {
            Entity = table.Table<EntityId>(0);
            InputId = table.UInt32(1);
            Value = table.Table<MotionGraphInputValue>(2);
        }

        internal override void Write(TableWriter table)
        {
            table.Table(0, Entity);
            table.UInt32(1, InputId);
            table.Table(2, Value);
        }
    }

    /// <summary>Asks for the value of one input, read as `type_hint`.</summary>
    public sealed class GetMotionGraphInputRequest : Message
    {
        public EntityId Entity { get; set; }
        public uint InputId { get; set; }
        public PolicyCommandType TypeHint { get; set; }

        internal override void Read(TableReader table)
        {
            Entity = table.Table<EntityId>(0);
            InputId = table.UInt32(1);
            TypeHint = (PolicyCommandType)table.Int32(2);
        }

        internal override void Write(TableWriter table)
        {
            table.Table(0, Entity);
            table.UInt32(1, InputId);
            table.Int32(2, (int)TypeHint);
        }
    }

    /// <summary>The input's value, or why there is none.</summary>
    public sealed class GetMotionGraphInputResponse : Message
    {
        public bool Success { get; set; }
        public MotionGraphInputValue Value { get; set; }
        public string Message { get; set; } = "";

        internal override void Read(TableReader table)
        {
            Success = table.Bool(0);
            Value = table.Table<MotionGraphInputValue>(1);
            Message = table.Text(2);
        }

        internal override void Write(TableWriter table)
        {
            table.Bool(0, Success);
            table.Table(1, Value);
            table.Text(2, Message);
        }
    }

    /// <summary>Fires one trigger input of a robot's motion graph.</summary>
    public sealed class FireMotionGraphTriggerRequest : Message
    {
        public EntityId Entity { get; set; }
        public uint InputId { get; set; }

        internal override void Read(TableReader table)
        {
            Entity = table.Table<EntityId>(0);
            InputId = table.UInt32(1);
        }

        internal override void Write(TableWriter table)
        {
            table.Table(0, Entity);
            table.UInt32(1, InputId);
        }
    }

    /// <summary>Asks for one slot's state at `target_fps` messages per second of wall clock (0 = the engine's
    /// default).</summary>
    public sealed class StreamPolicySlotStateRequest : Message
    {
        public EntityId Entity { get; set; }
        public uint SlotId { get; set; }
        public uint TargetFps { get; set; }

        internal override void Read(TableReader table)
        {
            Entity = table.Table<EntityId>(0);
            SlotId = table.UInt32(1);
            TargetFps = table.UInt32(2);
        }

        internal override void Write(TableWriter table)
        {
            table.Table(0, Entity);
            table.UInt32(1, SlotId);
            table.UInt32(2, TargetFps);
        }
    }

    /// <summary>Asks for one robot's controller at `target_fps` messages per second of wall clock (0 = the engine's
    /// default).</summary>
    public sealed class StreamRobotControllerRequest : Message
    {
        public EntityId Entity { get; set; }
        public uint TargetFps { get; set; }

        internal override void Read(TableReader table)
        {
            Entity = table.Table<EntityId>(0);
            TargetFps = table.UInt32(1);
        }

        internal override void Write(TableWriter table)
        {
            table.Table(0, Entity);
            table.UInt32(1, TargetFps);
        }
    }

    /// <summary>Asks where the robot's base is; refused while the slot is inactive.</summary>
    public sealed class GetPolicyBasePoseRequest : Message
    {
        public EntityId Entity { get; set; }
        public uint SlotId { get; set; }

        internal override void Read(TableReader table)
        {
            Entity = table.Table<EntityId>(0);
            SlotId = table.UInt32(1);
        }

        internal override void Write(TableWriter table)
        {
            table.Table(0, Entity);
            table.UInt32(1, SlotId);
        }
    }

    /// <summary>The base in two frames, or why it is not known: metres and radians.</summary>
    public sealed class PolicyBasePose : Message
    {
        public bool Success { get; set; }
        public string Message { get; set; } = "";
        public float X { get; set; }
        public float Y { get; set; }
        public float Yaw { get; set; }
        public float XHz { get; set; }
        public float ZHz { get; set; }
        public float YawHz { get; set; }

        internal override void Read(TableReader table)
        {
            Success = table.Bool(0);
            Message = table.Text(1);
            X = table.Single(2);
            Y = table.Single(3);
            Yaw = table.Single(4);
            XHz = table.Single(5);
            ZHz = table.Single(6);
            YawHz = table.Single(7);
        }

        internal override void Write(TableWriter table)
        {
            table.Bool(0, Success);
            table.Text(1, Message);
            table.Single(2, X);
            table.Single(3, Y);
            table.Single(4, Yaw);
            table.Single(5, XHz);
            table.Single(6, ZHz);
            table.Single(7, YawHz);
        }
    }

    /// <summary>Asks what a slot's policy put out last; refused while the slot is inactive or has not run
    /// yet.</summary>
    public sealed class GetPolicyLastActionRequest : Message
    {
        public EntityId Entity { get; set; }
        public uint SlotId { get; set; }

        internal override void Read(TableReader table)
        {
            Entity = table.Table<EntityId>(0);
            SlotId = table.UInt32(1);
        }

        internal override void Write(TableWriter table)
        {
            table.Table(0, Entity);
            table.UInt32(1, SlotId);
        }
    }

    /// <summary>What the policy put out when it last ran, one value per joint name, or why there is none.</summary>
    public sealed class PolicyLastAction : Message
    {
        public bool Success { get; set; }
        public string Message { get; set; } = "";
        public float[] Action { get; set; } = new float[0];
        public string[] JointNames { get; set; } = new string[0];

        internal override void Read(TableReader table)
        {
            Success = table.Bool(0);
            Message = table.Text(1);
            Action = table.SingleList(2);
            JointNames = table.TextList(3);
        }

        internal override void Write(TableWriter table)
        {
            table.Bool(0, Success);
            table.Text(1, Message);
            table.SingleList(2, Action);
            table.TextList(3, JointNames);
        }
    }

    /// <summary>One camera of the scene.</summary>
    public sealed class CameraInfo : Message
    {
        public EntityId Id { get; set; }
        public string Name { get; set; } = "";

        internal override void Read(TableReader table)
        {
            Id = table.Table<EntityId>(0);
            Name = table.Text(1);
        }

        internal override void Write(TableWriter table)
        {
            table.Table(0, Id);
            table.Text(1, Name);
        }
    }

    /// <summary>Asks for all cameras.</summary>
    public sealed class ListCamerasRequest : Message
    {
        internal override void Read(TableReader table) { }

        internal override void Write(TableWriter table) { }
    }

    /// <summary>All cameras of the scene.</summary>
    public sealed class ListCamerasResponse : Message
    {
        public CameraInfo[] Cameras { get; set; } = new CameraInfo[0];

        internal override void Read(TableReader table)
        {
            Cameras = table.TableList<CameraInfo>(0);
        }

        internal override void Write(TableWriter table)
        {
            table.TableList(0, Cameras);
        }
    }

    /// <summary>Asks for a camera's colour images, by entity or by name (`id` counts when given).</summary>
    public sealed class StreamCameraRequest : Message
    {
        public EntityId Id { get; set; }
        public string Name { get; set; } = "";
        public uint TargetFps { get; set; }
        public uint Width { get; set; }
        public uint Height { get; set; }
        public string Format { get; set; } = "";

        internal override void Read(TableReader table)
        {
            Id = table.Table<EntityId>(0);
            Name = table.Text(1);
            TargetFps = table.UInt32(2);
            Width = table.UInt32(3);
            Height = table.UInt32(4);
            Format = table.Text(5);
        }

        internal override void Write(TableWriter table)
        {
            table.Table(0, Id);
            table.Text(1, Name);
            table.UInt32(2, TargetFps);
            table.UInt32(3, Width);
            table.UInt32(4, Height);
            table.Text(5, Format);
        }
    }

    /// <summary>How a camera renders, and the model of its depth sensor.</summary>
    public sealed class CameraConfig : Message
    {
        public uint Width { get; set; }
        public uint Height { get; set; }
        public bool RecordMask { get; set; }
        public bool RecordDepth { get; set; }
        public bool Enabled { get; set; }
        public uint SensorModel { get; set; }
        public float DepthScale { get; set; }
        public float MaxRange { get; set; }
        public float MinRange { get; set; }
        public float DetectFloor { get; set; }
        public float Baseline { get; set; }
        public float SubpixelSigma { get; set; }
        public uint DebugChannel { get; set; }

        internal override void Read(TableReader table)
        {
            Width = table.UInt32(0);
            Height = table.UInt32(1);
            RecordMask = table.Bool(2);
            RecordDepth = table.Bool(3);
            Enabled = table.Bool(4);
            SensorModel = table.UInt32(5);
            DepthScale = table.Single(6);
            MaxRange = table.Single(7);
            MinRange = table.Single(8);
            DetectFloor = table.Single(9);
            Baseline = table.Single(10);
            SubpixelSigma = table.Single(11);
            DebugChannel = table.UInt32(12);
        }

        internal override void Write(TableWriter table)
        {
            table.UInt32(0, Width);
            table.UInt32(1, Height);
            table.Bool(2, RecordMask);
            table.Bool(3, RecordDepth);
            table.Bool(4, Enabled);
            table.UInt32(5, SensorModel);
            table.Single(6, DepthScale);
            table.Single(7, MaxRange);
            table.Single(8, MinRange);
            table.Single(9, DetectFloor);
            table.Single(10, Baseline);
            table.Single(11, SubpixelSigma);
            table.UInt32(12, DebugChannel);
        }
    }

    /// <summary>Asks how a camera is set, by entity or by name (`id` counts when given).</summary>
    public sealed class GetCameraConfigRequest : Message
    {
        public EntityId Id { get; set; }
        public string Name { get; set; } = "";

        internal override void Read(TableReader table)
        {
            Id = table.Table<EntityId>(0);
            Name = table.Text(1);
        }

        internal override void Write(TableWriter table)
        {
            table.Table(0, Id);
            table.Text(1, Name);
        }
    }

    /// <summary>How the camera is set; `found` is False where there is none.</summary>
    public sealed class CameraConfigResponse : Message
    {
        public bool Found { get; set; }
        public CameraConfig Config { get; set; }

        internal override void Read(TableReader table)
        {
            Found = table.Bool(0);
            Config = table.Table<CameraConfig>(1);
        }

        internal override void Write(TableWriter table)
        {
            table.Bool(0, Found);
            table.Table(1, Config);
        }
    }

    /// <summary>Sets a camera, by entity or by name (`id` counts when given).</summary>
    public sealed class SetCameraConfigRequest : Message
    {
        public EntityId Id { get; set; }
        public string Name { get; set; } = "";
        public CameraConfig Config { get; set; }

        internal override void Read(TableReader table)
        {
            Id = table.Table<EntityId>(0);
            Name = table.Text(1);
            Config = table.Table<CameraConfig>(2);
        }

        internal override void Write(TableWriter table)
        {
            table.Table(0, Id);
            table.Text(1, Name);
            table.Table(2, Config);
        }
    }

    /// <summary>Whether the camera was set, else why not.</summary>
    public sealed class CameraConfigAck : Message
    {
        public bool Ok { get; set; }
        public string Message { get; set; } = "";

        internal override void Read(TableReader table)
        {
            Ok = table.Bool(0);
            Message = table.Text(1);
        }

        internal override void Write(TableWriter table)
        {
            table.Bool(0, Ok);
            table.Text(1, Message);
        }
    }

    /// <summary>A point or a direction in the world, in metres.</summary>
    public sealed class DebugVector3 : Struct
    {
        public float X { get; set; }
        public float Y { get; set; }
        public float Z { get; set; }

        internal override int Size { get { return 12; } }

        internal override int Alignment { get { return 4; } }

        internal override void Read(ByteReader from, int at)
        {
            X = from.Single(at + 0);
            Y = from.Single(at + 4);
            Z = from.Single(at + 8);
        }

        internal override void Write(ByteWriter to, int at)
        {
            to.PutSingle(at + 0, X);
            to.PutSingle(at + 4, Y);
            to.PutSingle(at + 8, Z);
        }
    }

    /// <summary>A colour, each component from 0 to 1; `a` is opacity.</summary>
    public sealed class DebugColor : Struct
    {
        public float R { get; set; }
        public float G { get; set; }
        public float B { get; set; }
        public float A { get; set; }

        internal override int Size { get { return 16; } }

        internal override int Alignment { get { return 4; } }

        internal override void Read(ByteReader from, int at)
        {
            R = from.Single(at + 0);
            G = from.Single(at + 4);
            B = from.Single(at + 8);
            A = from.Single(at + 12);
        }

        internal override void Write(ByteWriter to, int at)
        {
            to.PutSingle(at + 0, R);
            to.PutSingle(at + 4, G);
            to.PutSingle(at + 8, B);
            to.PutSingle(at + 12, A);
        }
    }

    /// <summary>A line between two points.</summary>
    public sealed class DebugLine : Message
    {
        public DebugVector3 Start { get; set; }
        public DebugVector3 End { get; set; }
        public DebugColor Color { get; set; }

        internal override void Read(TableReader table)
        {
            Start = table.Struct<DebugVector3>(0);
            End = table.Struct<DebugVector3>(1);
            Color = table.Struct<DebugColor>(2);
        }

        internal override void Write(TableWriter table)
        {
            table.Struct(0, Start);
            table.Struct(1, End);
            table.Struct(2, Color);
        }
    }

    /// <summary>An arrow; it is as long as `direction` times `scale` (0 counts as 1).</summary>
    public sealed class DebugArrow : Message
    {
        public DebugVector3 Origin { get; set; }
        public DebugVector3 Direction { get; set; }
        public DebugColor Color { get; set; }
        public float Scale { get; set; }

        internal override void Read(TableReader table)
        {
            Origin = table.Struct<DebugVector3>(0);
            Direction = table.Struct<DebugVector3>(1);
            Color = table.Struct<DebugColor>(2);
            Scale = table.Single(3);
        }

        internal override void Write(TableWriter table)
        {
            table.Struct(0, Origin);
            table.Struct(1, Direction);
            table.Struct(2, Color);
            table.Single(3, Scale);
        }
    }

    /// <summary>A velocity command shown at a robot.</summary>
    public sealed class DebugVelocityCommand : Message
    {
        public DebugVector3 Origin { get; set; }
        public float LinVelX { get; set; }
        public float LinVelY { get; set; }
        public float AngVelZ { get; set; }
        public float Scale { get; set; }

        internal override void Read(TableReader table)
        {
            Origin = table.Struct<DebugVector3>(0);
            LinVelX = table.Single(1);
            LinVelY = table.Single(2);
            AngVelZ = table.Single(3);
            Scale = table.Single(4);
        }

        internal override void Write(TableWriter table)
        {
            table.Struct(0, Origin);
            table.Single(1, LinVelX);
            table.Single(2, LinVelY);
            table.Single(3, AngVelZ);
            table.Single(4, Scale);
        }
    }

    /// <summary>Everything to draw in one call; `clear_previous` removes what earlier calls drew.</summary>
    public sealed class DebugDrawRequest : Message
    {
        public DebugLine[] Lines { get; set; } = new DebugLine[0];
        public DebugArrow[] Arrows { get; set; } = new DebugArrow[0];
        public DebugVelocityCommand VelocityCommand { get; set; }
        public bool ClearPrevious { get; set; }

        internal override void Read(TableReader table)
        {
            Lines = table.TableList<DebugLine>(0);
            Arrows = table.TableList<DebugArrow>(1);
            VelocityCommand = table.Table<DebugVelocityCommand>(2);
            ClearPrevious = table.Bool(3);
        }

        internal override void Write(TableWriter table)
        {
            table.TableList(0, Lines);
            table.TableList(1, Arrows);
            table.Table(2, VelocityCommand);
            table.Bool(3, ClearPrevious);
        }
    }

    /// <summary>Whether it was drawn.</summary>
    public sealed class DebugDrawResponse : Message
    {
        public bool Success { get; set; }

        internal override void Read(TableReader table)
        {
            Success = table.Bool(0);
        }

        internal override void Write(TableWriter table)
        {
            table.Bool(0, Success);
        }
    }

    /// <summary>How simulated time passes.</summary>
    public enum SimulationMode
    {
        Realtime = 0,
        Deterministic = 1,
        Fast = 2,
    }

    /// <summary>One entity; `transform` and `components` (names of types) are there where they were asked
    /// for.</summary>
    public sealed class EntityInfo : Message
    {
        public EntityId Id { get; set; }
        public string Name { get; set; } = "";
        public Transform Transform { get; set; }
        public string[] Components { get; set; } = new string[0];

        internal override void Read(TableReader table)
        {
            Id = table.Table<EntityId>(0);
            Name = table.Text(1);
            Transform = table.Table<Transform>(2);
            Components = table.TextList(3);
        }

        internal override void Write(TableWriter table)
        {
            table.Table(0, Id);
            table.Text(1, Name);
            table.Table(2, Transform);
            table.TextList(3, Components);
        }
    }

    /// <summary>Asks which scene is loaded.</summary>
    public sealed class GetSceneInfoRequest : Message
    {
        internal override void Read(TableReader table) { }

        internal override void Write(TableWriter table) { }
    }

    /// <summary>The loaded scene; `entity_count` is the number of entities that ListEntities returns.</summary>
    public sealed class GetSceneInfoResponse : Message
    {
        public string SceneName { get; set; } = "";
        public string ScenePath { get; set; } = "";
        public uint EntityCount { get; set; }

        internal override void Read(TableReader table)
        {
            SceneName = table.Text(0);
            ScenePath = table.Text(1);
            EntityCount = table.UInt32(2);
        }

        internal override void Write(TableWriter table)
        {
            table.Text(0, SceneName);
            table.Text(1, ScenePath);
            table.UInt32(2, EntityCount);
        }
    }

    /// <summary>Asks for all entities, with their transforms and components where wanted.</summary>
    public sealed class ListEntitiesRequest : Message
    {
        public bool IncludeTransforms { get; set; }
        public bool IncludeComponents { get; set; }

        internal override void Read(TableReader table)
        {
            IncludeTransforms = table.Bool(0);
            IncludeComponents = table.Bool(1);
        }

        internal override void Write(TableWriter table)
        {
            table.Bool(0, IncludeTransforms);
            table.Bool(1, IncludeComponents);
        }
    }

    /// <summary>All entities of the scene.</summary>
    public sealed class ListEntitiesResponse : Message
    {
        public EntityInfo[] Entities { get; set; } = new EntityInfo[0];

        internal override void Read(TableReader table)
        {
            Entities = table.TableList<EntityInfo>(0);
        }

        internal override void Write(TableWriter table)
        {
            table.TableList(0, Entities);
        }
    }

    /// <summary>Asks for one entity by handle or by name (`id` counts when given).</summary>
    public sealed class GetEntityRequest : Message
    {
        public EntityId Id { get; set; }
        public string Name { get; set; } = "";

        internal override void Read(TableReader table)
        {
            Id = table.Table<EntityId>(0);
            Name = table.Text(1);
        }

        internal override void Write(TableWriter table)
        {
            table.Table(0, Id);
            table.Text(1, Name);
        }
    }

    /// <summary>The entity with everything known of it; `found` is False where there is none.</summary>
    public sealed class GetEntityResponse : Message
    {
        public bool Found { get; set; }
        public EntityInfo Entity { get; set; }

        internal override void Read(TableReader table)
        {
            Found = table.Bool(0);
            Entity = table.Table<EntityInfo>(1);
        }

        internal override void Write(TableWriter table)
        {
            table.Bool(0, Found);
            table.Table(1, Entity);
        }
    }

    /// <summary>Places an entity anew. The whole transform is replaced: fill every part of it.</summary>
    public sealed class SetEntityTransformRequest : Message
    {
        public EntityId Id { get; set; }
        public Transform Transform { get; set; }

        internal override void Read(TableReader table)
        {
            Id = table.Table<EntityId>(0);
            Transform = table.Table<Transform>(1);
        }

        internal override void Write(TableWriter table)
        {
            table.Table(0, Id);
            table.Table(1, Transform);
        }
    }

    /// <summary>Whether the entity was moved, else why not.</summary>
    public sealed class SetEntityTransformResponse : Message
    {
        public bool Success { get; set; }
        public string Message { get; set; } = "";

        internal override void Read(TableReader table)
        {
            Success = table.Bool(0);
            Message = table.Text(1);
        }

        internal override void Write(TableWriter table)
        {
            table.Bool(0, Success);
            table.Text(1, Message);
        }
    }

    /// <summary>Changes how simulated time passes; REALTIME may be refused while a client trains.</summary>
    public sealed class SetSimulationModeRequest : Message
    {
        public SimulationMode Mode { get; set; }

        internal override void Read(TableReader table)
        {
            Mode = (SimulationMode)table.Int32(0);
        }

        internal override void Write(TableWriter table)
        {
            table.Int32(0, (int)Mode);
        }
    }

    /// <summary>Whether the mode was changed, else why not, and the mode in force now.</summary>
    public sealed class SetSimulationModeResponse : Message
    {
        public bool Success { get; set; }
        public string Message { get; set; } = "";
        public SimulationMode CurrentMode { get; set; }

        internal override void Read(TableReader table)
        {
            Success = table.Bool(0);
            Message = table.Text(1);
            CurrentMode = (SimulationMode)table.Int32(2);
        }

        internal override void Write(TableWriter table)
        {
            table.Bool(0, Success);
            table.Text(1, Message);
            table.Int32(2, (int)CurrentMode);
        }
    }

    /// <summary>Asks how simulated time passes.</summary>
    public sealed class GetSimulationModeRequest : Message
    {
        internal override void Read(TableReader table) { }

        internal override void Write(TableWriter table) { }
    }

    /// <summary>The mode in force.</summary>
    public sealed class GetSimulationModeResponse : Message
    {
        public SimulationMode Mode { get; set; }

        internal override void Read(TableReader table)
        {
            Mode = (SimulationMode)table.Int32(0);
        }

        internal override void Write(TableWriter table)
        {
            table.Int32(0, (int)Mode);
        }
    }

    /// <summary>Starts the simulation; answered at once, poll GetAgentSchema until the agents are there.</summary>
    public sealed class EnterPlayModeRequest : Message
    {
        internal override void Read(TableReader table) { }

        internal override void Write(TableWriter table) { }
    }

    /// <summary>Whether play mode starts, else why not.</summary>
    public sealed class EnterPlayModeResponse : Message
    {
        public bool Success { get; set; }
        public string Message { get; set; } = "";

        internal override void Read(TableReader table)
        {
            Success = table.Bool(0);
            Message = table.Text(1);
        }

        internal override void Write(TableWriter table)
        {
            table.Bool(0, Success);
            table.Text(1, Message);
        }
    }

    /// <summary>Stops the simulation and with it the training session; answered at once.</summary>
    public sealed class ExitPlayModeRequest : Message
    {
        internal override void Read(TableReader table) { }

        internal override void Write(TableWriter table) { }
    }

    /// <summary>Whether play mode ends, else why not.</summary>
    public sealed class ExitPlayModeResponse : Message
    {
        public bool Success { get; set; }
        public string Message { get; set; } = "";

        internal override void Read(TableReader table)
        {
            Success = table.Bool(0);
            Message = table.Text(1);
        }

        internal override void Write(TableWriter table)
        {
            table.Bool(0, Success);
            table.Text(1, Message);
        }
    }

    /// <summary>Asks for a viewport's images; "" means the only one.</summary>
    public sealed class StartViewportStreamRequest : Message
    {
        public string ViewportName { get; set; } = "";
        public uint TargetFps { get; set; }
        public uint Width { get; set; }
        public uint Height { get; set; }
        public string Format { get; set; } = "";

        internal override void Read(TableReader table)
        {
            ViewportName = table.Text(0);
            TargetFps = table.UInt32(1);
            Width = table.UInt32(2);
            Height = table.UInt32(3);
            Format = table.Text(4);
        }

        internal override void Write(TableWriter table)
        {
            table.Text(0, ViewportName);
            table.UInt32(1, TargetFps);
            table.UInt32(2, Width);
            table.UInt32(3, Height);
            table.Text(4, Format);
        }
    }

    /// <summary>The stream as it runs now: images per second of wall clock, pixels.</summary>
    public sealed class ViewportStreamConfig : Message
    {
        public bool Streaming { get; set; }
        public string ViewportName { get; set; } = "";
        public uint Fps { get; set; }
        public uint Width { get; set; }
        public uint Height { get; set; }

        internal override void Read(TableReader table)
        {
            Streaming = table.Bool(0);
            ViewportName = table.Text(1);
            Fps = table.UInt32(2);
            Width = table.UInt32(3);
            Height = table.UInt32(4);
        }

        internal override void Write(TableWriter table)
        {
            table.Bool(0, Streaming);
            table.Text(1, ViewportName);
            table.UInt32(2, Fps);
            table.UInt32(3, Width);
            table.UInt32(4, Height);
        }
    }

    /// <summary>Asks for the viewports.</summary>
    public sealed class GetViewportInfoRequest : Message
    {
        internal override void Read(TableReader table) { }

        internal override void Write(TableWriter table) { }
    }

    /// <summary>Names of the viewports, and the stream that runs now.</summary>
    public sealed class GetViewportInfoResponse : Message
    {
        public string[] AvailableViewports { get; set; } = new string[0];
        public ViewportStreamConfig CurrentConfig { get; set; }

        internal override void Read(TableReader table)
        {
            AvailableViewports = table.TextList(0);
            CurrentConfig = table.Table<ViewportStreamConfig>(1);
        }

        internal override void Write(TableWriter table)
        {
            table.TextList(0, AvailableViewports);
            table.Table(1, CurrentConfig);
        }
    }

    /// <summary>Whether the change was made, else why not.</summary>
    public sealed class LidarAck : Message
    {
        public bool Ok { get; set; }
        public string Message { get; set; } = "";

        internal override void Read(TableReader table)
        {
            Ok = table.Bool(0);
            Message = table.Text(1);
        }

        internal override void Write(TableWriter table)
        {
            table.Bool(0, Ok);
            table.Text(1, Message);
        }
    }

    /// <summary>Names a sensor, from 0.</summary>
    public sealed class LidarSensorRequest : Message
    {
        public uint Sensor { get; set; }

        internal override void Read(TableReader table)
        {
            Sensor = table.UInt32(0);
        }

        internal override void Write(TableWriter table)
        {
            table.UInt32(0, Sensor);
        }
    }

    /// <summary>Switches the sensors on or off; they must be on before scans are read, and stay so through
    /// resets.</summary>
    public sealed class SetLidarLiveRequest : Message
    {
        public bool Live { get; set; }

        internal override void Read(TableReader table)
        {
            Live = table.Bool(0);
        }

        internal override void Write(TableWriter table)
        {
            table.Bool(0, Live);
        }
    }

    /// <summary>Sets the beams of one sensor: `channels` in elevation times `azimuth_bins` around.</summary>
    public sealed class SetLidarConfigRequest : Message
    {
        public uint Sensor { get; set; }
        public uint ScanPattern { get; set; }
        public uint Channels { get; set; }
        public uint AzimuthBins { get; set; }
        public float VfovMinDeg { get; set; }
        public float VfovMaxDeg { get; set; }
        public float MinRange { get; set; }
        public float MaxRange { get; set; }
        public float RotationHz { get; set; }
        public uint GeomGroupMask { get; set; }
        public uint SelfIgnore { get; set; }

        internal override void Read(TableReader table)
        {
            Sensor = table.UInt32(0);
            ScanPattern = table.UInt32(1);
            Channels = table.UInt32(2);
            AzimuthBins = table.UInt32(3);
            VfovMinDeg = table.Single(4);
            VfovMaxDeg = table.Single(5);
            MinRange = table.Single(6);
            MaxRange = table.Single(7);
            RotationHz = table.Single(8);
            GeomGroupMask = table.UInt32(9);
            SelfIgnore = table.UInt32(10);
        }

        internal override void Write(TableWriter table)
        {
            table.UInt32(0, Sensor);
            table.UInt32(1, ScanPattern);
            table.UInt32(2, Channels);
            table.UInt32(3, AzimuthBins);
            table.Single(4, VfovMinDeg);
            table.Single(5, VfovMaxDeg);
            table.Single(6, MinRange);
            table.Single(7, MaxRange);
            table.Single(8, RotationHz);
            table.UInt32(9, GeomGroupMask);
            table.UInt32(10, SelfIgnore);
        }
    }

    /// <summary>The beams of one sensor; `found` is False where there is no such sensor.</summary>
    public sealed class LidarConfigResponse : Message
    {
        public bool Found { get; set; }
        public uint ScanPattern { get; set; }
        public uint Channels { get; set; }
        public uint AzimuthBins { get; set; }
        public float VfovMinDeg { get; set; }
        public float VfovMaxDeg { get; set; }
        public float MinRange { get; set; }
        public float MaxRange { get; set; }
        public float RotationHz { get; set; }
        public uint GeomGroupMask { get; set; }
        public uint SelfIgnore { get; set; }
        public uint SecondaryCapture { get; set; }
        public uint SecondaryScope { get; set; }

        internal override void Read(TableReader table)
        {
            Found = table.Bool(0);
            ScanPattern = table.UInt32(1);
            Channels = table.UInt32(2);
            AzimuthBins = table.UInt32(3);
            VfovMinDeg = table.Single(4);
            VfovMaxDeg = table.Single(5);
            MinRange = table.Single(6);
            MaxRange = table.Single(7);
            RotationHz = table.Single(8);
            GeomGroupMask = table.UInt32(9);
            SelfIgnore = table.UInt32(10);
            SecondaryCapture = table.UInt32(11);
            SecondaryScope = table.UInt32(12);
        }

        internal override void Write(TableWriter table)
        {
            table.Bool(0, Found);
            table.UInt32(1, ScanPattern);
            table.UInt32(2, Channels);
            table.UInt32(3, AzimuthBins);
            table.Single(4, VfovMinDeg);
            table.Single(5, VfovMaxDeg);
            table.Single(6, MinRange);
            table.Single(7, MaxRange);
            table.Single(8, RotationHz);
            table.UInt32(9, GeomGroupMask);
            table.UInt32(10, SelfIgnore);
            table.UInt32(11, SecondaryCapture);
            table.UInt32(12, SecondaryScope);
        }
    }

    /// <summary>Sets how strong a return is, how noisy, and when it is lost, for all sensors.</summary>
    public sealed class SetLidarReturnParamsRequest : Message
    {
        public float MaxRangeAtRef { get; set; }
        public float RefReflectivity { get; set; }
        public float RangeExp { get; set; }
        public float NoiseSigma0 { get; set; }
        public float GrazingCosCutoff { get; set; }
        public float IntensityRefRange { get; set; }
        public float DetectFloor { get; set; }
        public float NearRangeR0 { get; set; }
        public float NoiseSlopePerM { get; set; }
        public float? SpecSlopeFloor { get; set; }
        public float? SpecPeakMax { get; set; }
        public float? RetroGain { get; set; }
        public float? RetroCosExp { get; set; }
        public float? FoldMaxSlope { get; set; }
        public float? RangeFloor { get; set; }
        public float? MinReturnSeparation { get; set; }
        public uint? MaxReturns { get; set; }

        internal override void Read(TableReader table)
        {
            MaxRangeAtRef = table.Single(0);
            RefReflectivity = table.Single(1);
            RangeExp = table.Single(2);
            NoiseSigma0 = table.Single(3);
            GrazingCosCutoff = table.Single(4);
            IntensityRefRange = table.Single(5);
            DetectFloor = table.Single(6);
            NearRangeR0 = table.Single(7);
            NoiseSlopePerM = table.Single(8);
            SpecSlopeFloor = table.SingleOrNull(9);
            SpecPeakMax = table.SingleOrNull(10);
            RetroGain = table.SingleOrNull(11);
            RetroCosExp = table.SingleOrNull(12);
            FoldMaxSlope = table.SingleOrNull(13);
            RangeFloor = table.SingleOrNull(14);
            MinReturnSeparation = table.SingleOrNull(15);
            MaxReturns = table.UInt32OrNull(16);
        }

        internal override void Write(TableWriter table)
        {
            table.Single(0, MaxRangeAtRef);
            table.Single(1, RefReflectivity);
            table.Single(2, RangeExp);
            table.Single(3, NoiseSigma0);
            table.Single(4, GrazingCosCutoff);
            table.Single(5, IntensityRefRange);
            table.Single(6, DetectFloor);
            table.Single(7, NearRangeR0);
            table.Single(8, NoiseSlopePerM);
            table.SingleOrNull(9, SpecSlopeFloor);
            table.SingleOrNull(10, SpecPeakMax);
            table.SingleOrNull(11, RetroGain);
            table.SingleOrNull(12, RetroCosExp);
            table.SingleOrNull(13, FoldMaxSlope);
            table.SingleOrNull(14, RangeFloor);
            table.SingleOrNull(15, MinReturnSeparation);
            table.UInt32OrNull(16, MaxReturns);
        }
    }

    /// <summary>Asks for the return model in force.</summary>
    public sealed class GetLidarReturnParamsRequest : Message
    {
        internal override void Read(TableReader table) { }

        internal override void Write(TableWriter table) { }
    }

    /// <summary>The return model in force, as in SetLidarReturnParamsRequest.</summary>
    public sealed class LidarReturnParamsResponse : Message
    {
        public float MaxRangeAtRef { get; set; }
        public float RefReflectivity { get; set; }
        public float RangeExp { get; set; }
        public float NoiseSigma0 { get; set; }
        public float GrazingCosCutoff { get; set; }
        public float IntensityRefRange { get; set; }
        public float DetectFloor { get; set; }
        public float NearRangeR0 { get; set; }
        public float NoiseSlopePerM { get; set; }
        public float SpecSlopeFloor { get; set; }
        public float SpecPeakMax { get; set; }
        public float RetroGain { get; set; }
        public float RetroCosExp { get; set; }
        public float FoldMaxSlope { get; set; }
        public float RangeFloor { get; set; }
        public float MinReturnSeparation { get; set; }
        public uint MaxReturns { get; set; }

        internal override void Read(TableReader table)
        {
            MaxRangeAtRef = table.Single(0);
            RefReflectivity = table.Single(1);
            RangeExp = table.Single(2);
            NoiseSigma0 = table.Single(3);
            GrazingCosCutoff = table.Single(4);
            IntensityRefRange = table.Single(5);
            DetectFloor = table.Single(6);
            NearRangeR0 = table.Single(7);
            NoiseSlopePerM = table.Single(8);
            SpecSlopeFloor = table.Single(9);
            SpecPeakMax = table.Single(10);
            RetroGain = table.Single(11);
            RetroCosExp = table.Single(12);
            FoldMaxSlope = table.Single(13);
            RangeFloor = table.Single(14);
            MinReturnSeparation = table.Single(15);
            MaxReturns = table.UInt32(16);
        }

        internal override void Write(TableWriter table)
        {
            table.Single(0, MaxRangeAtRef);
            table.Single(1, RefReflectivity);
            table.Single(2, RangeExp);
            table.Single(3, NoiseSigma0);
            table.Single(4, GrazingCosCutoff);
            table.Single(5, IntensityRefRange);
            table.Single(6, DetectFloor);
            table.Single(7, NearRangeR0);
            table.Single(8, NoiseSlopePerM);
            table.Single(9, SpecSlopeFloor);
            table.Single(10, SpecPeakMax);
            table.Single(11, RetroGain);
            table.Single(12, RetroCosExp);
            table.Single(13, FoldMaxSlope);
            table.Single(14, RangeFloor);
            table.Single(15, MinReturnSeparation);
            table.UInt32(16, MaxReturns);
        }
    }

    /// <summary>Sets every sensor to one of the engine's presets, from 0.</summary>
    public sealed class SetLidarPresetRequest : Message
    {
        public uint Preset { get; set; }

        internal override void Read(TableReader table)
        {
            Preset = table.UInt32(0);
        }

        internal override void Write(TableWriter table)
        {
            table.UInt32(0, Preset);
        }
    }

    /// <summary>Builds the grid that tells the material at a place; it walks the whole scene and takes its
    /// time.</summary>
    public sealed class BakeLidarMaterialRequest : Message
    {
        public float CellSize { get; set; }
        public int MaxDim { get; set; }
        public int SplatRadius { get; set; }
        public uint IncludeHidden { get; set; }

        internal override void Read(TableReader table)
        {
            CellSize = table.Single(0);
            MaxDim = table.Int32(1);
            SplatRadius = table.Int32(2);
            IncludeHidden = table.UInt32(3);
        }

        internal override void Write(TableWriter table)
        {
            table.Single(0, CellSize);
            table.Int32(1, MaxDim);
            table.Int32(2, SplatRadius);
            table.UInt32(3, IncludeHidden);
        }
    }

    /// <summary>What the grid holds and whether it still fits the scene.</summary>
    public sealed class LidarBakeStatusResponse : Message
    {
        public bool Valid { get; set; }
        public uint FormatVersion { get; set; }
        public float CellSizeM { get; set; }
        public int SplatRadius { get; set; }
        public uint DimX { get; set; }
        public uint DimY { get; set; }
        public uint DimZ { get; set; }
        public ulong FilledCells { get; set; }
        public ulong GeomMaterials { get; set; }
        public ulong MaterialFingerprint { get; set; }
        public bool Stale { get; set; }

        internal override void Read(TableReader table)
        {
            Valid = table.Bool(0);
            FormatVersion = table.UInt32(1);
            CellSizeM = table.Single(2);
            SplatRadius = table.Int32(3);
            DimX = table.UInt32(4);
            DimY = table.UInt32(5);
            DimZ = table.UInt32(6);
            FilledCells = table.UInt64(7);
            GeomMaterials = table.UInt64(8);
            MaterialFingerprint = table.UInt64(9);
            Stale = table.Bool(10);
        }

        internal override void Write(TableWriter table)
        {
            table.Bool(0, Valid);
            table.UInt32(1, FormatVersion);
            table.Single(2, CellSizeM);
            table.Int32(3, SplatRadius);
            table.UInt32(4, DimX);
            table.UInt32(5, DimY);
            table.UInt32(6, DimZ);
            table.UInt64(7, FilledCells);
            table.UInt64(8, GeomMaterials);
            table.UInt64(9, MaterialFingerprint);
            table.Bool(10, Stale);
        }
    }

    /// <summary>What becomes of a beam after its first hit.</summary>
    public sealed class SetLidarSecondaryCaptureRequest : Message
    {
        public uint Sensor { get; set; }
        public uint Capture { get; set; }
        public uint Scope { get; set; }

        internal override void Read(TableReader table)
        {
            Sensor = table.UInt32(0);
            Capture = table.UInt32(1);
            Scope = table.UInt32(2);
        }

        internal override void Write(TableWriter table)
        {
            table.UInt32(0, Sensor);
            table.UInt32(1, Capture);
            table.UInt32(2, Scope);
        }
    }

    /// <summary>Loads a grid that was saved under that name.</summary>
    public sealed class LoadLidarBakeRequest : Message
    {
        public string Name { get; set; } = "";

        internal override void Read(TableReader table)
        {
            Name = table.Text(0);
        }

        internal override void Write(TableWriter table)
        {
            table.Text(0, Name);
        }
    }

    /// <summary>Saves the grid under that name.</summary>
    public sealed class SaveLidarBakeRequest : Message
    {
        public string Name { get; set; } = "";

        internal override void Read(TableReader table)
        {
            Name = table.Text(0);
        }

        internal override void Write(TableWriter table)
        {
            table.Text(0, Name);
        }
    }

    /// <summary>Asks for one scan of a sensor; what is not wanted comes empty.</summary>
    public sealed class GetLidarScanRequest : Message
    {
        public uint Sensor { get; set; }
        public bool Material { get; set; }
        public bool WantSecondary { get; set; }
        public bool WantIntensity { get; set; }

        internal override void Read(TableReader table)
        {
            Sensor = table.UInt32(0);
            Material = table.Bool(1);
            WantSecondary = table.Bool(2);
            WantIntensity = table.Bool(3);
        }

        internal override void Write(TableWriter table)
        {
            table.UInt32(0, Sensor);
            table.Bool(1, Material);
            table.Bool(2, WantSecondary);
            table.Bool(3, WantIntensity);
        }
    }

    /// <summary>One scan, one value per beam where it was asked for.</summary>
    public sealed class LidarScanResponse : Message
    {
        public uint Beams { get; set; }
        public float[] Ranges { get; set; } = new float[0];
        public float[] SecondaryRanges { get; set; } = new float[0];
        public float[] Intensity { get; set; } = new float[0];
        public float[] ReflectivityCalibrated { get; set; } = new float[0];

        internal override void Read(TableReader table)
        {
            Beams = table.UInt32(0);
            Ranges = table.SingleList(1);
            SecondaryRanges = table.SingleList(2);
            Intensity = table.SingleList(3);
            ReflectivityCalibrated = table.SingleList(4);
        }

        internal override void Write(TableWriter table)
        {
            table.UInt32(0, Beams);
            table.SingleList(1, Ranges);
            table.SingleList(2, SecondaryRanges);
            table.SingleList(3, Intensity);
            table.SingleList(4, ReflectivityCalibrated);
        }
    }

    /// <summary>How many beams a scan has.</summary>
    public sealed class LidarBeamCountResponse : Message
    {
        public uint Beams { get; set; }

        internal override void Read(TableReader table)
        {
            Beams = table.UInt32(0);
        }

        internal override void Write(TableWriter table)
        {
            table.UInt32(0, Beams);
        }
    }

    /// <summary>Direction of each beam in radians, in the order of LidarScanResponse.ranges: azimuth about the
    /// vertical, elevation above the horizon.</summary>
    public sealed class LidarBeamAnglesResponse : Message
    {
        public uint Beams { get; set; }
        public float[] Azimuth { get; set; } = new float[0];
        public float[] Elevation { get; set; } = new float[0];

        internal override void Read(TableReader table)
        {
            Beams = table.UInt32(0);
            Azimuth = table.SingleList(1);
            Elevation = table.SingleList(2);
        }

        internal override void Write(TableWriter table)
        {
            table.UInt32(0, Beams);
            table.SingleList(1, Azimuth);
            table.SingleList(2, Elevation);
        }
    }

    /// <summary>Seeds for the next reset, one per env; `mask` (one byte per env, empty = all) says which of them
    /// count.</summary>
    public sealed class SetSeedsRequest : Message
    {
        public ulong[] Seeds { get; set; } = new ulong[0];
        public byte[] Mask { get; set; } = new byte[0];

        internal override void Read(TableReader table)
        {
            Seeds = table.UInt64List(0);
            Mask = table.Bytes(1);
        }

        internal override void Write(TableWriter table)
        {
            table.UInt64List(0, Seeds);
            table.Bytes(1, Mask);
        }
    }

    /// <summary>Whether the engine takes seeds, else why not.</summary>
    public sealed class SetSeedsResponse : Message
    {
        public bool Success { get; set; }
        public string Message { get; set; } = "";

        internal override void Read(TableReader table)
        {
            Success = table.Bool(0);
            Message = table.Text(1);
        }

        internal override void Write(TableWriter table)
        {
            table.Bool(0, Success);
            table.Text(1, Message);
        }
    }

    /// <summary>Randomisation and other options for the envs reset next; `options_json` is a JSON object ("" =
    /// none).</summary>
    public sealed class SetResetOptionsRequest : Message
    {
        public SimulationContract Contract { get; set; }
        public string OptionsJson { get; set; } = "";

        internal override void Read(TableReader table)
        {
            Contract = table.Table<SimulationContract>(0);
            OptionsJson = table.Text(1);
        }

        internal override void Write(TableWriter table)
        {
            table.Table(0, Contract);
            table.Text(1, OptionsJson);
        }
    }

    /// <summary>Whether the engine took the options, else why not.</summary>
    public sealed class SetResetOptionsResponse : Message
    {
        public bool Success { get; set; }
        public string Message { get; set; } = "";

        internal override void Read(TableReader table)
        {
            Success = table.Bool(0);
            Message = table.Text(1);
        }

        internal override void Write(TableWriter table)
        {
            table.Bool(0, Success);
            table.Text(1, Message);
        }
    }

    /// <summary>Asks for the worlds that the engine offers.</summary>
    public sealed class GetWorldsRequest : Message
    {
        internal override void Read(TableReader table) { }

        internal override void Write(TableWriter table) { }
    }

    /// <summary>maps: names of worlds, the first is the default. events: names that may interrupt an advance. tick_s:
    /// the simulated time of a tick, in seconds.</summary>
    public sealed class GetWorldsResponse : Message
    {
        public string[] Maps { get; set; } = new string[0];
        public string[] Events { get; set; } = new string[0];
        public double TickS { get; set; }

        internal override void Read(TableReader table)
        {
            Maps = table.TextList(0);
            Events = table.TextList(1);
            TickS = table.Double(2);
        }

        internal override void Write(TableWriter table)
        {
            table.TextList(0, Maps);
            table.TextList(1, Events);
            table.Double(2, TickS);
        }
    }

    /// <summary>One action: a message of `Worlds.action`, encoded.</summary>
    public sealed class SessionAction : Message
    {
        public byte[] Payload { get; set; } = new byte[0];

        internal override void Read(TableReader table)
        {
            Payload = table.Bytes(0);
        }

        internal override void Write(TableWriter table)
        {
            table.Bytes(0, Payload);
        }
    }

    /// <summary>The actions that a world took when it had done `tick` ticks, in order.</summary>
    public sealed class RecordedActions : Message
    {
        public ulong Tick { get; set; }
        public SessionAction[] Actions { get; set; } = new SessionAction[0];

        internal override void Read(TableReader table)
        {
            Tick = table.UInt64(0);
            Actions = table.TableList<SessionAction>(1);
        }

        internal override void Write(TableWriter table)
        {
            table.UInt64(0, Tick);
            table.TableList(1, Actions);
        }
    }

    /// <summary>All that replays a session: how its world was made, the actions it took, and for how many `ticks` it
    /// ran.</summary>
    public sealed class SessionRecording : Message
    {
        public string MapName { get; set; } = "";
        public ulong Seed { get; set; }
        public string OptionsJson { get; set; } = "";
        public ulong Ticks { get; set; }
        public RecordedActions[] Actions { get; set; } = new RecordedActions[0];

        internal override void Read(TableReader table)
        {
            MapName = table.Text(0);
            Seed = table.UInt64(1);
            OptionsJson = table.Text(2);
            Ticks = table.UInt64(3);
            Actions = table.TableList<RecordedActions>(4);
        }

        internal override void Write(TableWriter table)
        {
            table.Text(0, MapName);
            table.UInt64(1, Seed);
            table.Text(2, OptionsJson);
            table.UInt64(3, Ticks);
            table.TableList(4, Actions);
        }
    }

    /// <summary>Asks for a session. `map_name` "" is the default one, `options_json` a JSON object ("" =
    /// none).</summary>
    public sealed class CreateSessionRequest : Message
    {
        public string MapName { get; set; } = "";
        public ulong? Seed { get; set; }
        public string OptionsJson { get; set; } = "";
        public bool Owned { get; set; }
        public bool Record { get; set; }
        public SessionRecording Recording { get; set; }

        internal override void Read(TableReader table)
        {
            MapName = table.Text(0);
            Seed = table.UInt64OrNull(1);
            OptionsJson = table.Text(2);
            Owned = table.Bool(3);
            Record = table.Bool(4);
            Recording = table.Table<SessionRecording>(5);
        }

        internal override void Write(TableWriter table)
        {
            table.Text(0, MapName);
            table.UInt64OrNull(1, Seed);
            table.Text(2, OptionsJson);
            table.Bool(3, Owned);
            table.Bool(4, Record);
            table.Table(5, Recording);
        }
    }

    /// <summary>The id of the new session, whose world is being built.</summary>
    public sealed class CreateSessionResponse : Message
    {
        public string SessionId { get; set; } = "";

        internal override void Read(TableReader table)
        {
            SessionId = table.Text(0);
        }

        internal override void Write(TableWriter table)
        {
            table.Text(0, SessionId);
        }
    }

    /// <summary>Names a session.</summary>
    public sealed class SessionRequest : Message
    {
        public string SessionId { get; set; } = "";

        internal override void Read(TableReader table)
        {
            SessionId = table.Text(0);
        }

        internal override void Write(TableWriter table)
        {
            table.Text(0, SessionId);
        }
    }

    /// <summary>The status of a session. `phase` is creating, ready, playing, over, failed or gone.</summary>
    public sealed class SessionStatus : Message
    {
        public string SessionId { get; set; } = "";
        public string MapName { get; set; } = "";
        public string Phase { get; set; } = "";
        public ulong Ticks { get; set; }
        public bool IsOver { get; set; }
        public string Result { get; set; } = "";
        public double Score { get; set; }
        public string Error { get; set; } = "";
        public ulong Dropped { get; set; }
        public double? RateHz { get; set; }

        internal override void Read(TableReader table)
        {
            SessionId = table.Text(0);
            MapName = table.Text(1);
            Phase = table.Text(2);
            Ticks = table.UInt64(3);
            IsOver = table.Bool(4);
            Result = table.Text(5);
            Score = table.Double(6);
            Error = table.Text(7);
            Dropped = table.UInt64(8);
            RateHz = table.DoubleOrNull(9);
        }

        internal override void Write(TableWriter table)
        {
            table.Text(0, SessionId);
            table.Text(1, MapName);
            table.Text(2, Phase);
            table.UInt64(3, Ticks);
            table.Bool(4, IsOver);
            table.Text(5, Result);
            table.Double(6, Score);
            table.Text(7, Error);
            table.UInt64(8, Dropped);
            table.DoubleOrNull(9, RateHz);
        }
    }

    /// <summary>Asks for the ids of all sessions.</summary>
    public sealed class ListSessionsRequest : Message
    {
        internal override void Read(TableReader table) { }

        internal override void Write(TableWriter table) { }
    }

    /// <summary>The ids, oldest first.</summary>
    public sealed class ListSessionsResponse : Message
    {
        public string[] SessionIds { get; set; } = new string[0];

        internal override void Read(TableReader table)
        {
            SessionIds = table.TextList(0);
        }

        internal override void Write(TableWriter table)
        {
            table.TextList(0, SessionIds);
        }
    }

    /// <summary>A world at tick `ticks`: its observation, encoded, and how far it has come.</summary>
    public sealed class SessionSnapshot : Message
    {
        public byte[] Observation { get; set; } = new byte[0];
        public ulong Ticks { get; set; }
        public bool IsOver { get; set; }
        public string Result { get; set; } = "";
        public double Score { get; set; }

        internal override void Read(TableReader table)
        {
            Observation = table.Bytes(0);
            Ticks = table.UInt64(1);
            IsOver = table.Bool(2);
            Result = table.Text(3);
            Score = table.Double(4);
        }

        internal override void Write(TableWriter table)
        {
            table.Bytes(0, Observation);
            table.UInt64(1, Ticks);
            table.Bool(2, IsOver);
            table.Text(3, Result);
            table.Double(4, Score);
        }
    }

    /// <summary>Asks a world to take `actions` and advance by `ticks` (0: only the snapshot).</summary>
    public sealed class AdvanceSessionRequest : Message
    {
        public string SessionId { get; set; } = "";
        public uint Ticks { get; set; }
        public SessionAction[] Actions { get; set; } = new SessionAction[0];
        public string[] Interrupts { get; set; } = new string[0];
        public uint CheckEvery { get; set; }

        internal override void Read(TableReader table)
        {
            SessionId = table.Text(0);
            Ticks = table.UInt32(1);
            Actions = table.TableList<SessionAction>(2);
            Interrupts = table.TextList(3);
            CheckEvery = table.UInt32(4);
        }

        internal override void Write(TableWriter table)
        {
            table.Text(0, SessionId);
            table.UInt32(1, Ticks);
            table.TableList(2, Actions);
            table.TextList(3, Interrupts);
            table.UInt32(4, CheckEvery);
        }
    }

    /// <summary>The world afterwards, the ticks it did, and the event that ended it early ("" when none did).</summary>
    public sealed class AdvanceSessionResponse : Message
    {
        public SessionSnapshot Snapshot { get; set; }
        public uint TicksDone { get; set; }
        public string Interrupt { get; set; } = "";

        internal override void Read(TableReader table)
        {
            Snapshot = table.Table<SessionSnapshot>(0);
            TicksDone = table.UInt32(1);
            Interrupt = table.Text(2);
        }

        internal override void Write(TableWriter table)
        {
            table.Table(0, Snapshot);
            table.UInt32(1, TicksDone);
            table.Text(2, Interrupt);
        }
    }

    /// <summary>Has a world take these actions in its next tick; at most 16 are pending.</summary>
    public sealed class ActInSessionRequest : Message
    {
        public string SessionId { get; set; } = "";
        public SessionAction[] Actions { get; set; } = new SessionAction[0];

        internal override void Read(TableReader table)
        {
            SessionId = table.Text(0);
            Actions = table.TableList<SessionAction>(1);
        }

        internal override void Write(TableWriter table)
        {
            table.Text(0, SessionId);
            table.TableList(1, Actions);
        }
    }

    /// <summary>The number of older actions that were dropped for these.</summary>
    public sealed class ActInSessionResponse : Message
    {
        public uint Dropped { get; set; }

        internal override void Read(TableReader table)
        {
            Dropped = table.UInt32(0);
        }

        internal override void Write(TableWriter table)
        {
            table.UInt32(0, Dropped);
        }
    }

    /// <summary>Lets a session run freely, `rate_hz` ticks a second (0: as fast as it can); absent stops it.</summary>
    public sealed class RunSessionRequest : Message
    {
        public string SessionId { get; set; } = "";
        public double? RateHz { get; set; }

        internal override void Read(TableReader table)
        {
            SessionId = table.Text(0);
            RateHz = table.DoubleOrNull(1);
        }

        internal override void Write(TableWriter table)
        {
            table.Text(0, SessionId);
            table.DoubleOrNull(1, RateHz);
        }
    }

    /// <summary>The session runs, or stands still.</summary>
    public sealed class RunSessionResponse : Message
    {
        internal override void Read(TableReader table) { }

        internal override void Write(TableWriter table) { }
    }

    /// <summary>Asks for the newest snapshot of a world, later than `after_tick` where that is given.</summary>
    public sealed class GetLatestRequest : Message
    {
        public string SessionId { get; set; } = "";
        public ulong? AfterTick { get; set; }

        internal override void Read(TableReader table)
        {
            SessionId = table.Text(0);
            AfterTick = table.UInt64OrNull(1);
        }

        internal override void Write(TableWriter table)
        {
            table.Text(0, SessionId);
            table.UInt64OrNull(1, AfterTick);
        }
    }

    /// <summary>Restarts a session's world with `seed` (absent: the engine's choice).</summary>
    public sealed class RestartSessionRequest : Message
    {
        public string SessionId { get; set; } = "";
        public ulong? Seed { get; set; }

        internal override void Read(TableReader table)
        {
            SessionId = table.Text(0);
            Seed = table.UInt64OrNull(1);
        }

        internal override void Write(TableWriter table)
        {
            table.Text(0, SessionId);
            table.UInt64OrNull(1, Seed);
        }
    }

    /// <summary>There is no session of that id any more.</summary>
    public sealed class DestroySessionResponse : Message
    {
        internal override void Read(TableReader table) { }

        internal override void Write(TableWriter table) { }
    }

    /// <summary>Asks for the state of an env.</summary>
    public sealed class GetStateRequest : Message
    {
        public uint Env { get; set; }

        internal override void Read(TableReader table)
        {
            Env = table.UInt32(0);
        }

        internal override void Write(TableWriter table)
        {
            table.UInt32(0, Env);
        }
    }

    /// <summary>All that the env's course depends on; `SetState` takes it back.</summary>
    public sealed class GetStateResponse : Message
    {
        public byte[] State { get; set; } = new byte[0];

        internal override void Read(TableReader table)
        {
            State = table.Bytes(0);
        }

        internal override void Write(TableWriter table)
        {
            table.Bytes(0, State);
        }
    }

    /// <summary>Puts an env into a state that `GetState` gave of an env of the same engine.</summary>
    public sealed class SetStateRequest : Message
    {
        public uint Env { get; set; }
        public byte[] State { get; set; } = new byte[0];

        internal override void Read(TableReader table)
        {
            Env = table.UInt32(0);
            State = table.Bytes(1);
        }

        internal override void Write(TableWriter table)
        {
            table.UInt32(0, Env);
            table.Bytes(1, State);
        }
    }

    /// <summary>What is observed in that state: one row of the spec's observation.</summary>
    public sealed class SetStateResponse : Message
    {
        public byte[] Observation { get; set; } = new byte[0];

        internal override void Read(TableReader table)
        {
            Observation = table.Bytes(0);
        }

        internal override void Write(TableWriter table)
        {
            table.Bytes(0, Observation);
        }
    }

    /// <summary>Kind of a joint, numbered as MuJoCo's mjtJoint. In qpos it takes 7, 4, 1 and 1 values, in qvel 6, 3, 1
    /// and 1.</summary>
    public enum MjJointType
    {
        Free = 0,
        Ball = 1,
        Slide = 2,
        Hinge = 3,
        Unknown = 99,
    }

    /// <summary>One joint of the model and what drives it.</summary>
    public sealed class JointDescriptor : Message
    {
        public uint Index { get; set; }
        public string Name { get; set; } = "";
        public MjJointType Type { get; set; }
        public uint QposAdr { get; set; }
        public uint QvelAdr { get; set; }
        public bool Limited { get; set; }
        public float RangeLo { get; set; }
        public float RangeHi { get; set; }
        public uint ClaimedByPolicySlotId { get; set; }
        public bool ClaimedByRlAgent { get; set; }

        internal override void Read(TableReader table)
        {
            Index = table.UInt32(0);
            Name = table.Text(1);
            Type = (MjJointType)table.Int32(2);
            QposAdr = table.UInt32(3);
            QvelAdr = table.UInt32(4);
            Limited = table.Bool(5);
            RangeLo = table.Single(6);
            RangeHi = table.Single(7);
            ClaimedByPolicySlotId = table.UInt32(8);
            ClaimedByRlAgent = table.Bool(9);
        }

        internal override void Write(TableWriter table)
        {
            table.UInt32(0, Index);
            table.Text(1, Name);
            table.Int32(2, (int)Type);
            table.UInt32(3, QposAdr);
            table.UInt32(4, QvelAdr);
            table.Bool(5, Limited);
            table.Single(6, RangeLo);
            table.Single(7, RangeHi);
            table.UInt32(8, ClaimedByPolicySlotId);
            table.Bool(9, ClaimedByRlAgent);
        }
    }

    /// <summary>One actuator of the model and what drives it.</summary>
    public sealed class ActuatorDescriptor : Message
    {
        public uint Index { get; set; }
        public string Name { get; set; } = "";
        public bool CtrlLimited { get; set; }
        public float CtrlRangeLo { get; set; }
        public float CtrlRangeHi { get; set; }
        public int TargetJointIndex { get; set; }
        public uint ClaimedByPolicySlotId { get; set; }
        public bool ClaimedByRlAgent { get; set; }

        internal override void Read(TableReader table)
        {
            Index = table.UInt32(0);
            Name = table.Text(1);
            CtrlLimited = table.Bool(2);
            CtrlRangeLo = table.Single(3);
            CtrlRangeHi = table.Single(4);
            TargetJointIndex = table.Int32(5);
            ClaimedByPolicySlotId = table.UInt32(6);
            ClaimedByRlAgent = table.Bool(7);
        }

        internal override void Write(TableWriter table)
        {
            table.UInt32(0, Index);
            table.Text(1, Name);
            table.Bool(2, CtrlLimited);
            table.Single(3, CtrlRangeLo);
            table.Single(4, CtrlRangeHi);
            table.Int32(5, TargetJointIndex);
            table.UInt32(6, ClaimedByPolicySlotId);
            table.Bool(7, ClaimedByRlAgent);
        }
    }

    /// <summary>Asks for the whole model's description.</summary>
    public sealed class GetModelInfoRequest : Message
    {
        internal override void Read(TableReader table) { }

        internal override void Write(TableWriter table) { }
    }

    /// <summary>Sizes, joints and actuators of the whole model, in MuJoCo's order, or why there is none.</summary>
    public sealed class GetModelInfoResponse : Message
    {
        public bool Success { get; set; }
        public string Message { get; set; } = "";
        public uint Nq { get; set; }
        public uint Nv { get; set; }
        public uint Nu { get; set; }
        public uint Njnt { get; set; }
        public JointDescriptor[] Joints { get; set; } = new JointDescriptor[0];
        public ActuatorDescriptor[] Actuators { get; set; } = new ActuatorDescriptor[0];

        internal override void Read(TableReader table)
        {
            Success = table.Bool(0);
            Message = table.Text(1);
            Nq = table.UInt32(2);
            Nv = table.UInt32(3);
            Nu = table.UInt32(4);
            Njnt = table.UInt32(5);
            Joints = table.TableList<JointDescriptor>(6);
            Actuators = table.TableList<ActuatorDescriptor>(7);
        }

        internal override void Write(TableWriter table)
        {
            table.Bool(0, Success);
            table.Text(1, Message);
            table.UInt32(2, Nq);
            table.UInt32(3, Nv);
            table.UInt32(4, Nu);
            table.UInt32(5, Njnt);
            table.TableList(6, Joints);
            table.TableList(7, Actuators);
        }
    }

    /// <summary>A snapshot of the whole model, in MuJoCo's order and units; what was not asked for is empty.</summary>
    public sealed class FullState : Message
    {
        public float[] Qpos { get; set; } = new float[0];
        public float[] Qvel { get; set; } = new float[0];
        public float[] Ctrl { get; set; } = new float[0];
        public double Time { get; set; }
        public ulong FrameNumber { get; set; }

        internal override void Read(TableReader table)
        {
            Qpos = table.SingleList(0);
            Qvel = table.SingleList(1);
            Ctrl = table.SingleList(2);
            Time = table.Double(3);
            FrameNumber = table.UInt64(4);
        }

        internal override void Write(TableWriter table)
        {
            table.SingleList(0, Qpos);
            table.SingleList(1, Qvel);
            table.SingleList(2, Ctrl);
            table.Double(3, Time);
            table.UInt64(4, FrameNumber);
        }
    }

    /// <summary>Asks for parts of the state, all three when none is named; an absent `filter` means the whole
    /// model.</summary>
    public sealed class GetFullStateRequest : Message
    {
        public bool IncludeQpos { get; set; }
        public bool IncludeQvel { get; set; }
        public bool IncludeCtrl { get; set; }
        public StateFilter Filter { get; set; }

        internal override void Read(TableReader table)
        {
            IncludeQpos = table.Bool(0);
            IncludeQvel = table.Bool(1);
            IncludeCtrl = table.Bool(2);
            Filter = table.Table<StateFilter>(3);
        }

        internal override void Write(TableWriter table)
        {
            table.Bool(0, IncludeQpos);
            table.Bool(1, IncludeQvel);
            table.Bool(2, IncludeCtrl);
            table.Table(3, Filter);
        }
    }

    /// <summary>The state, or why there is none; the indices say what a filter left and are empty without
    /// one.</summary>
    public sealed class GetFullStateResponse : Message
    {
        public bool Success { get; set; }
        public string Message { get; set; } = "";
        public FullState State { get; set; }
        public uint[] IncludedJointIndices { get; set; } = new uint[0];
        public uint[] IncludedActuatorIndices { get; set; } = new uint[0];

        internal override void Read(TableReader table)
        {
            Success = table.Bool(0);
            Message = table.Text(1);
            State = table.Table<FullState>(2);
            IncludedJointIndices = table.UInt32List(3);
            IncludedActuatorIndices = table.UInt32List(4);
        }

        internal override void Write(TableWriter table)
        {
            table.Bool(0, Success);
            table.Text(1, Message);
            table.Table(2, State);
            table.UInt32List(3, IncludedJointIndices);
            table.UInt32List(4, IncludedActuatorIndices);
        }
    }

    /// <summary>As GetFullStateRequest, `target_fps` times per second of wall clock (0 = the engine's
    /// default).</summary>
    public sealed class StreamFullStateRequest : Message
    {
        public uint TargetFps { get; set; }
        public bool IncludeQpos { get; set; }
        public bool IncludeQvel { get; set; }
        public bool IncludeCtrl { get; set; }
        public StateFilter Filter { get; set; }

        internal override void Read(TableReader table)
        {
            TargetFps = table.UInt32(0);
            IncludeQpos = table.Bool(1);
            IncludeQvel = table.Bool(2);
            IncludeCtrl = table.Bool(3);
            Filter = table.Table<StateFilter>(4);
        }

        internal override void Write(TableWriter table)
        {
            table.UInt32(0, TargetFps);
            table.Bool(1, IncludeQpos);
            table.Bool(2, IncludeQvel);
            table.Bool(3, IncludeCtrl);
            table.Table(4, Filter);
        }
    }

    /// <summary>Narrows a state to joints that policies drive, that nothing drives, or that one slot drives (0 =
    /// none).</summary>
    public sealed class StateFilter : Message
    {
        public bool IncludeOnlyPolicyClaimedJoints { get; set; }
        public bool IncludeOnlyUnclaimedJoints { get; set; }
        public uint FilterBySlotId { get; set; }

        internal override void Read(TableReader table)
        {
            IncludeOnlyPolicyClaimedJoints = table.Bool(0);
            IncludeOnlyUnclaimedJoints = table.Bool(1);
            FilterBySlotId = table.UInt32(2);
        }

        internal override void Write(TableWriter table)
        {
            table.Bool(0, IncludeOnlyPolicyClaimedJoints);
            table.Bool(1, IncludeOnlyUnclaimedJoints);
            table.UInt32(2, FilterBySlotId);
        }
    }

    /// <summary>A value for the actuator of that name, in the unit of its control.</summary>
    public sealed class NamedControlEntry : Message
    {
        public string ActuatorName { get; set; } = "";
        public float Value { get; set; }

        internal override void Read(TableReader table)
        {
            ActuatorName = table.Text(0);
            Value = table.Single(1);
        }

        internal override void Write(TableWriter table)
        {
            table.Text(0, ActuatorName);
            table.Single(1, Value);
        }
    }

    /// <summary>A value for the actuator at that index, in the unit of its control.</summary>
    public sealed class IndexedControlEntry : Message
    {
        public uint ActuatorIndex { get; set; }
        public float Value { get; set; }

        internal override void Read(TableReader table)
        {
            ActuatorIndex = table.UInt32(0);
            Value = table.Single(1);
        }

        internal override void Write(TableWriter table)
        {
            table.UInt32(0, ActuatorIndex);
            table.Single(1, Value);
        }
    }

    /// <summary>Sets controls in up to three ways at once; later ones count more: bulk, indexed, named.</summary>
    public sealed class SetControlRequest : Message
    {
        public float[] Bulk { get; set; } = new float[0];
        public IndexedControlEntry[] Indexed { get; set; } = new IndexedControlEntry[0];
        public NamedControlEntry[] Named { get; set; } = new NamedControlEntry[0];
        public bool WaitForNextStep { get; set; }
        public bool SkipRangeClamp { get; set; }

        internal override void Read(TableReader table)
        {
            Bulk = table.SingleList(0);
            Indexed = table.TableList<IndexedControlEntry>(1);
            Named = table.TableList<NamedControlEntry>(2);
            WaitForNextStep = table.Bool(3);
            SkipRangeClamp = table.Bool(4);
        }

        internal override void Write(TableWriter table)
        {
            table.SingleList(0, Bulk);
            table.TableList(1, Indexed);
            table.TableList(2, Named);
            table.Bool(3, WaitForNextStep);
            table.Bool(4, SkipRangeClamp);
        }
    }

    /// <summary>How many values were taken; an unknown index or name refuses all of them.</summary>
    public sealed class SetControlResponse : Message
    {
        public bool Success { get; set; }
        public string Message { get; set; } = "";
        public uint ActuatorsWritten { get; set; }
        public string[] RejectedActuators { get; set; } = new string[0];

        internal override void Read(TableReader table)
        {
            Success = table.Bool(0);
            Message = table.Text(1);
            ActuatorsWritten = table.UInt32(2);
            RejectedActuators = table.TextList(3);
        }

        internal override void Write(TableWriter table)
        {
            table.Bool(0, Success);
            table.Text(1, Message);
            table.UInt32(2, ActuatorsWritten);
            table.TextList(3, RejectedActuators);
        }
    }

    /// <summary>A value for qpos at that index, in radians or metres.</summary>
    public sealed class IndexedQposEntry : Message
    {
        public uint QposIndex { get; set; }
        public float Value { get; set; }

        internal override void Read(TableReader table)
        {
            QposIndex = table.UInt32(0);
            Value = table.Single(1);
        }

        internal override void Write(TableWriter table)
        {
            table.UInt32(0, QposIndex);
            table.Single(1, Value);
        }
    }

    /// <summary>Moves the model to new positions at once; `indexed` counts more than `bulk`.</summary>
    public sealed class SetQposRequest : Message
    {
        public float[] Bulk { get; set; } = new float[0];
        public IndexedQposEntry[] Indexed { get; set; } = new IndexedQposEntry[0];
        public bool Force { get; set; }
        public bool SkipPolicyReseed { get; set; }

        internal override void Read(TableReader table)
        {
            Bulk = table.SingleList(0);
            Indexed = table.TableList<IndexedQposEntry>(1);
            Force = table.Bool(2);
            SkipPolicyReseed = table.Bool(3);
        }

        internal override void Write(TableWriter table)
        {
            table.SingleList(0, Bulk);
            table.TableList(1, Indexed);
            table.Bool(2, Force);
            table.Bool(3, SkipPolicyReseed);
        }
    }

    /// <summary>How many values of qpos were written, or why none.</summary>
    public sealed class SetQposResponse : Message
    {
        public bool Success { get; set; }
        public string Message { get; set; } = "";
        public uint ValuesWritten { get; set; }

        internal override void Read(TableReader table)
        {
            Success = table.Bool(0);
            Message = table.Text(1);
            ValuesWritten = table.UInt32(2);
        }

        internal override void Write(TableWriter table)
        {
            table.Bool(0, Success);
            table.Text(1, Message);
            table.UInt32(2, ValuesWritten);
        }
    }

    /// <summary>Gains of one actuator as they are in force.</summary>
    public sealed class ActuatorGainInfo : Message
    {
        public uint ActuatorIndex { get; set; }
        public string ActuatorName { get; set; } = "";
        public float GainPrm0 { get; set; }
        public float BiasPrm0 { get; set; }
        public bool Neutralized { get; set; }

        internal override void Read(TableReader table)
        {
            ActuatorIndex = table.UInt32(0);
            ActuatorName = table.Text(1);
            GainPrm0 = table.Single(2);
            BiasPrm0 = table.Single(3);
            Neutralized = table.Bool(4);
        }

        internal override void Write(TableWriter table)
        {
            table.UInt32(0, ActuatorIndex);
            table.Text(1, ActuatorName);
            table.Single(2, GainPrm0);
            table.Single(3, BiasPrm0);
            table.Bool(4, Neutralized);
        }
    }

    /// <summary>Asks for the gains of all actuators.</summary>
    public sealed class GetActuatorGainsRequest : Message
    {
        internal override void Read(TableReader table) { }

        internal override void Write(TableWriter table) { }
    }

    /// <summary>The gains of all actuators, in MuJoCo's order, or why there are none.</summary>
    public sealed class GetActuatorGainsResponse : Message
    {
        public bool Success { get; set; }
        public string Message { get; set; } = "";
        public ActuatorGainInfo[] Actuators { get; set; } = new ActuatorGainInfo[0];

        internal override void Read(TableReader table)
        {
            Success = table.Bool(0);
            Message = table.Text(1);
            Actuators = table.TableList<ActuatorGainInfo>(2);
        }

        internal override void Write(TableWriter table)
        {
            table.Bool(0, Success);
            table.Text(1, Message);
            table.TableList(2, Actuators);
        }
    }

    /// <summary>Puts the model back to keyframe 0, or to qpos0 where it has none; velocities, forces and controls
    /// become zero.</summary>
    public sealed class ResetSceneRequest : Message
    {
        public bool PreserveTime { get; set; }

        internal override void Read(TableReader table)
        {
            PreserveTime = table.Bool(0);
        }

        internal override void Write(TableWriter table)
        {
            table.Bool(0, PreserveTime);
        }
    }

    /// <summary>Whether the scene was reset, else why not.</summary>
    public sealed class ResetSceneResponse : Message
    {
        public bool Success { get; set; }
        public string Message { get; set; } = "";

        internal override void Read(TableReader table)
        {
            Success = table.Bool(0);
            Message = table.Text(1);
        }

        internal override void Write(TableWriter table)
        {
            table.Bool(0, Success);
            table.Text(1, Message);
        }
    }

    /// <summary>One entry of a call's metadata; keys may repeat and their order counts, as in gRPC.</summary>
    internal sealed class Metadatum : Message
    {
        public string Key { get; set; } = "";
        public byte[] Value { get; set; } = new byte[0];

        internal override void Read(TableReader table)
        {
            Key = table.Text(0);
            Value = table.Bytes(1);
        }

        internal override void Write(TableWriter table)
        {
            table.Text(0, Key);
            table.Bytes(1, Value);
        }
    }

    /// <summary>Where one image of the message lies: `length` bytes in a slot of a file beside the segment
    /// (`&lt;segment&gt;.images.&lt;file&gt;`), where they stay as long as the slot has that number. file 0: in the
    /// message itself.</summary>
    internal sealed class ImagePlace : Struct
    {
        public ulong Length { get; set; }
        public uint File { get; set; }
        public uint Slot { get; set; }
        public uint Number { get; set; }

        internal override int Size { get { return 24; } }

        internal override int Alignment { get { return 8; } }

        internal override void Read(ByteReader from, int at)
        {
            Length = from.UInt64(at + 0);
            File = from.UInt32(at + 8);
            Slot = from.UInt32(at + 12);
            Number = from.UInt32(at + 16);
        }

        internal override void Write(ByteWriter to, int at)
        {
            to.PutUInt64(at + 0, Length);
            to.PutUInt32(at + 8, File);
            to.PutUInt32(at + 12, Slot);
            to.PutUInt32(at + 16, Number);
        }
    }

    /// <summary>One record of a command ring: one message of one call.</summary>
    internal sealed class Envelope : Message
    {
        public uint Method { get; set; }
        public ulong CorrelationId { get; set; }
        public Kind Kind { get; set; }
        public ulong DeadlineNs { get; set; }
        public uint Status { get; set; }
        public string Details { get; set; } = "";
        public Metadatum[] Metadata { get; set; } = new Metadatum[0];
        public byte[] Payload { get; set; } = new byte[0];
        public string Path { get; set; } = "";
        public uint Streams { get; set; }
        public uint Items { get; set; }
        public uint Window { get; set; }
        public ulong Offset { get; set; }
        public ulong Total { get; set; }
        public uint Dropped { get; set; }
        public ImagePlace[] Images { get; set; } = new ImagePlace[0];
        public uint Code { get; set; }

        internal override void Read(TableReader table)
        {
            Method = table.UInt32(0);
            CorrelationId = table.UInt64(1);
            Kind = (Kind)table.UInt32(2);
            DeadlineNs = table.UInt64(3);
            Status = table.UInt32(4);
            Details = table.Text(5);
            Metadata = table.TableList<Metadatum>(6);
            Payload = table.Bytes(7);
            Path = table.Text(8);
            Streams = table.UInt32(9);
            Items = table.UInt32(10);
            Window = table.UInt32(11);
            Offset = table.UInt64(12);
            Total = table.UInt64(13);
            Dropped = table.UInt32(14);
            Images = table.StructList<ImagePlace>(15);
            Code = table.UInt32(16);
        }

        internal override void Write(TableWriter table)
        {
            table.UInt32(0, Method);
            table.UInt64(1, CorrelationId);
            table.UInt32(2, (uint)Kind);
            table.UInt64(3, DeadlineNs);
            table.UInt32(4, Status);
            table.Text(5, Details);
            table.TableList(6, Metadata);
            table.Bytes(7, Payload);
            table.Text(8, Path);
            table.UInt32(9, Streams);
            table.UInt32(10, Items);
            table.UInt32(11, Window);
            table.UInt64(12, Offset);
            table.UInt64(13, Total);
            table.UInt32(14, Dropped);
            table.StructList(15, Images);
            table.UInt32(16, Code);
        }
    }
}
