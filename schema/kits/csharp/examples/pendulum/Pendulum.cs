using System;
using System.Collections.Generic;
using LuckyTransport;

/// <summary>
/// The engine `pendulum` of lucky_transport/engines/pendulum.py, bit for bit: a batch of pendulums that a motor swings
/// up. A C# compiler may compute in a wider type than float, so every operation is rounded by a cast.
/// </summary>
public sealed class Pendulum : Engine
{
    private const float Pi = 3.1415927f, HalfPi = 1.5707964f, TwoPi = 6.2831855f;
    private const float MaxTorque = 2, MaxVelocity = 8, TickSeconds = 0.05f, Gravity = 15, Torque = 3;
    private const float VelocityWeight = 0.1f, TorqueWeight = 0.001f;
    private const double Hz = 30;
    private const int Pixels = 64, Channels = 4;
    private const string Camera = "front";

    // Taylor series of the sine, x^11 first
    private static readonly float[] Series =
        { (float)(1f / -39916800f), (float)(1f / 362880f), (float)(1f / -5040f), (float)(1f / 120f), (float)(1f / -6f) };

    private readonly int _maxTicks;
    private readonly float[] _angles, _velocities;
    private readonly ulong[] _seeds, _episodes;
    private readonly int[] _ticks;

    public Pendulum(int numEnvs, int maxTicks = 200, ulong seed = 0) : base(SpecOf(numEnvs, maxTicks))
    {
        _maxTicks = maxTicks;
        _angles = new float[numEnvs];
        _velocities = new float[numEnvs];
        _ticks = new int[numEnvs];
        _episodes = new ulong[numEnvs];
        _seeds = new ulong[numEnvs];
        for (int env = 0; env < numEnvs; env++) _seeds[env] = unchecked(seed + (ulong)env);
    }

    private static BatchSpec SpecOf(int numEnvs, int maxTicks)
    {
        var observation = new ArraySpec(ElementType.Float32, 3) { Low = new double[] { -1, -1, -8 }, High = new double[] { 1, 1, 8 } };
        var action = new ArraySpec(ElementType.Float32, 1) { Low = new double[] { -2 }, High = new double[] { 2 } };
        return new BatchSpec("pendulum", numEnvs, observation, action)
        {
            RewardTerms = new[] { "angle", "velocity", "effort" },
            TerminationTerms = new[] { "time_out" },
            TimeoutTerms = new[] { "time_out" },
            ObservationNames = new[] { "cos", "sin", "velocity" },
            ActionNames = new[] { "torque" },
            StepSeconds = 0.05,
            Attributes = { { "max_episode_steps", maxTicks } },
        };
    }

    public override void Register(RpcDispatcher rpc)
    {
        rpc.Handle(Methods.BatchService.SetSeeds, SetSeeds);
        rpc.Handle(Methods.MujocoService.GetJointState, JointStateOf);
        rpc.Stream(Methods.MujocoService.StreamJointState, StreamJointState);
        rpc.Handle(Methods.CameraService.ListCameras, request => new ListCamerasResponse
        {
            Cameras = new[] { new CameraInfo { Name = Camera } },
        });
        rpc.Stream(Methods.CameraService.StreamCamera, StreamCamera);
    }

    // -- stepping ----------------------------------------------------------------------------------------------------

    public override void Step(StepBuffers step)
    {
        Float32Rows actions = step.Actions, observations = step.Observations, signals = step.Signals;
        for (int env = 0; env < step.NumEnvs; env++)
        {
            if (step.IsHeld(env)) continue;
            if (step.IsReset(env)) Begin(env);
            else Advance(env, actions[env, 0], step, signals);
            observations[env, 0] = Sine((float)(HalfPi - Math.Abs(_angles[env])));
            observations[env, 1] = Sine(_angles[env]);
            observations[env, 2] = _velocities[env];
        }
    }

    private void Begin(int env)
    {
        ulong key = SplitMix64(unchecked(_seeds[env] + SplitMix64(_episodes[env])));
        _angles[env] = (float)(Pi * Uniform(key));
        _velocities[env] = Uniform(unchecked(key + 1));
        _episodes[env]++;
        _ticks[env] = 0;
    }

    private void Advance(int env, float action, StepBuffers step, Float32Rows signals)
    {
        float angle = _angles[env], velocity = _velocities[env];
        float torque = Clip(action, MaxTorque);
        bool ended = ++_ticks[env] >= _maxTicks;
        signals[0, env] = -(float)(angle * angle);
        signals[1, env] = -(float)(VelocityWeight * (float)(velocity * velocity));
        signals[2, env] = -(float)(TorqueWeight * (float)(torque * torque));
        signals[3, env] = ended ? 1 : 0;
        step.Truncated[env] = ended;
        float force = (float)((float)(Gravity * Sine(angle)) + (float)(Torque * torque));
        velocity = Clip((float)(velocity + (float)(force * TickSeconds)), MaxVelocity);
        angle = (float)(angle + (float)(velocity * TickSeconds));
        angle = (float)(angle - (float)((angle > Pi ? TwoPi : 0f) - (angle < -Pi ? TwoPi : 0f)));
        _angles[env] = angle;
        _velocities[env] = velocity;
    }

    private static float Clip(float value, float limit) { return Math.Min(Math.Max(value, -limit), limit); }

    /// <summary>The sine of an angle in [-pi, pi], the same bits on every machine.</summary>
    private static float Sine(float x)
    {
        float folded = x > HalfPi ? (float)(Pi - x) : x < -HalfPi ? (float)(-Pi - x) : x;
        float square = (float)(folded * folded);
        float series = (float)(square * Series[0]);
        for (int i = 1; i < Series.Length; i++) series = (float)((float)(series + Series[i]) * square);
        return (float)(folded * (float)(series + 1f));
    }

    private static ulong SplitMix64(ulong value)
    {
        unchecked
        {
            value += 0x9E3779B97F4A7C15;
            value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9;
            value = (value ^ (value >> 27)) * 0x94D049BB133111EB;
            return value ^ (value >> 31);
        }
    }

    /// <summary>A number in [-1, 1): the upper 24 bits of a function of the key.</summary>
    private static float Uniform(ulong key) { return (float)((float)((float)(SplitMix64(key) >> 40) / 8388608f) - 1f); }

    // -- commands ----------------------------------------------------------------------------------------------------

    private SetSeedsResponse SetSeeds(SetSeedsRequest request)
    {
        int n = Spec.NumEnvs;
        if (request.Seeds.Length != n)
            return new SetSeedsResponse { Message = string.Format(
                "{0} seeds for {1} envs: expected one per env", request.Seeds.Length, n) };
        if (request.Mask.Length != 0 && request.Mask.Length != n)
            return new SetSeedsResponse { Message = string.Format(
                "mask of {0} bytes for {1} envs: expected one per env", request.Mask.Length, n) };
        for (int env = 0; env < n; env++)
        {
            if (request.Mask.Length != 0 && request.Mask[env] == 0) continue;
            _seeds[env] = request.Seeds[env];
            _episodes[env] = 0;
        }
        return new SetSeedsResponse { Success = true };
    }

    private GetJointStateResponse JointStateOf(GetJointStateRequest request)
    {
        int env = Spec.EnvOf(request.RobotName);
        if (env < 0) return new GetJointStateResponse { Message = "no robot '" + request.RobotName + "'" };
        return new GetJointStateResponse
        {
            Success = true,
            State = new JointState { Positions = new[] { _angles[env] }, Velocities = new[] { _velocities[env] }, Nq = 1, Nv = 1 },
        };
    }

    private IEnumerable<GetJointStateResponse> StreamJointState(GetJointStateRequest request, Call call)
    {
        foreach (int tick in call.Ticks(Hz))
        {
            GetJointStateResponse state = null;
            call.BetweenSteps(() => state = JointStateOf(request));
            yield return state;
            if (!state.Success) yield break;
        }
    }

    /// <summary>The env that a camera shows: "" and "front" env 0, "agent_3/front" env 3.</summary>
    private int CameraEnv(string name)
    {
        int slash = name.LastIndexOf('/');
        int env = Spec.EnvOf(slash < 0 ? "" : name.Substring(0, slash));
        string camera = name.Substring(slash + 1);
        if (env < 0 || (camera != "" && camera != Camera))
            throw new TransportException(WireCode.UnknownName, string.Format(
                "no camera '{0}'; there are agent_0/{1} to agent_{2}/{1}", name, Camera, Spec.NumEnvs - 1));
        return env;
    }

    /// <summary>One pendulum: grey, with a white square at its end.</summary>
    private IEnumerable<ImageFrame> StreamCamera(StreamCameraRequest request, Call call)
    {
        int env = CameraEnv(request.Name);
        foreach (int tick in call.Ticks(request.TargetFps == 0 ? Hz : request.TargetFps))
        {
            float angle = 0;
            call.BetweenSteps(() => angle = _angles[env]);
            var pixels = new byte[Pixels * Pixels * Channels];
            for (int i = 0; i < pixels.Length; i++) pixels[i] = 128;
            int column = (int)(float)(Pixels / 2 - (float)(24f * Sine(angle)));
            int row = (int)(float)(Pixels / 2 - (float)(24f * Sine((float)(HalfPi - Math.Abs(angle)))));
            for (int y = row - 2; y < row + 2; y++)
                for (int x = (column - 2) * Channels; x < (column + 2) * Channels; x++) pixels[y * Pixels * Channels + x] = 255;
            yield return new ImageFrame
            {
                Data = pixels, Width = Pixels, Height = Pixels, Channels = Channels, Format = "raw", FrameNumber = (uint)tick,
                TimestampMs = (ulong)DateTimeOffset.UtcNow.ToUnixTimeMilliseconds(),
            };
        }
    }
}
