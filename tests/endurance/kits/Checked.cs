using System;
using System.Collections.Generic;
using LuckyTransport;

/// <summary>The engine of checked_engine.py by the kit in C#.</summary>
public sealed class Checked : Engine
{
    private const int NumEnvs = 16, ObsSize = 64, ActSize = 2, Beams = 100, Many = 15000, Large = 3, RingBytes = 65536;
    private const int Width = 64, Height = 48, Channels = 4, Prepared = 4, ItemBytes = 1000, ItemsPerSecond = 1000;

    private static readonly string Text = new string('x', ItemBytes);

    private Checked() : base(new BatchSpec(
        "checked", NumEnvs, new ArraySpec(ElementType.Float32, ObsSize),
        new ArraySpec(ElementType.Float32, ActSize) { Low = new double[] { -1, -1 }, High = new double[] { 1, 1 } })
        { RewardTerms = new[] { "first" } })
    {
    }

    public override void Register(RpcDispatcher rpc)
    {
        rpc.Handle(Methods.BatchService.SetSeeds, request => new SetSeedsResponse { Success = true });
        rpc.Handle(Methods.SceneService.GetSceneInfo, request => new GetSceneInfoResponse { EntityCount = 1 });
        rpc.Handle(Methods.LidarService.GetLidarBeamAngles, BeamAngles);
        rpc.Stream(Methods.AgentService.StreamPolicySlotState, SlotState);
        rpc.Stream(Methods.CameraService.StreamCamera, Camera);
    }

    public override void Step(StepBuffers step)
    {
        Float32Rows actions = step.Actions, observations = step.Observations, signals = step.Signals;
        for (int env = 0; env < step.NumEnvs; env++)
        {
            for (int i = 0; i < ObsSize; i++) observations[env, i] = (float)(actions[env, 0] + i);
            signals[0, env] = actions[env, 0];
            step.Terminated[env] = step.Truncated[env] = false;
        }
    }

    private static LidarBeamAnglesResponse BeamAngles(LidarSensorRequest request)
    {
        var shown = new float[request.Sensor <= Large ? Many : Beams];
        for (int i = 0; i < shown.Length; i++) shown[i] = request.Sensor % 1000 + i;
        return new LidarBeamAnglesResponse { Beams = request.Sensor, Azimuth = shown, Elevation = shown };
    }

    private static IEnumerable<PolicySlotSummary> SlotState(StreamPolicySlotStateRequest request, Call call)
    {
        uint number = 0;
        foreach (int tick in call.Ticks(ItemsPerSecond)) yield return new PolicySlotSummary { SlotId = number++, Name = Text };
    }

    private static IEnumerable<ImageFrame> Camera(StreamCameraRequest request, Call call)
    {
        foreach (int tick in call.Ticks(ItemsPerSecond))
        {
            var pixels = new byte[Width * Height * Channels];
            for (int i = 0; i < pixels.Length; i++) pixels[i] = (byte)(10 + (tick + 1) % Prepared);
            yield return new ImageFrame
            {
                Data = pixels, Width = Width, Height = Height, Channels = Channels, FrameNumber = (uint)tick + 1,
            };
        }
    }

    public static int Main(string[] arguments)
    {
        try
        {
            using (var transport = new SharedMemoryTransport(arguments[0], new Checked(), RingBytes))
            using (new TerminationSignals(transport))
            {
                Console.WriteLine("ready");
                transport.Serve();
            }
            return 0;
        }
        catch (TransportException error)
        {
            Console.Error.WriteLine("checked: {0}: {1}", error.Code, error.Message);
            return 1;
        }
    }
}
