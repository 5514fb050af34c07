using System;
using System.Collections.Generic;
using LuckyTransport;

/// <summary>
/// Serves an engine of two envs at shm://NAME that writes a row of signals only where an action is 1, and fails by lower
/// ones. `refused` instead of a name: prints why each contradictory engine is refused.
/// </summary>
public sealed class Careless : Engine
{
    private readonly bool _isTwice;

    public Careless(BatchSpec spec, bool isTwice = false) : base(spec) { _isTwice = isTwice; }

    private static BatchSpec SpecOf(ArraySpec action = null)
    {
        return new BatchSpec("careless", 2, new ArraySpec(ElementType.Float32, 1), action ?? new ArraySpec(ElementType.Float32, 1))
        {
            RewardTerms = new[] { "goal", "effort" }, TerminationTerms = new[] { "hit", "late" }, TimeoutTerms = new[] { "late" },
        };
    }

    public override void Register(RpcDispatcher rpc)
    {
        rpc.Handle(Methods.MujocoService.GetJointState, OutOfJoint);
        rpc.Stream(Methods.MujocoService.StreamJointState, OutOfItems);
        if (_isTwice) rpc.Handle(Methods.MujocoService.GetJointState, OutOfJoint);
    }

    private static GetJointStateResponse OutOfJoint(GetJointStateRequest request)
    {
        if (request.RobotName == "typed") throw new TransportException(WireCode.UnknownSession, "no such session");
        throw new InvalidOperationException("out of joint");
    }

    private static IEnumerable<GetJointStateResponse> OutOfItems(GetJointStateRequest request, Call call)
    {
        yield return new GetJointStateResponse { Success = true };
        throw new InvalidOperationException("out of items");
    }

    public override void Step(StepBuffers step)
    {
        for (int env = 0; env < step.NumEnvs; env++)
        {
            if (step.IsHeld(env) || step.IsReset(env)) continue;
            float action = step.Actions[env, 0];
            if (action == 1)
            {
                step.Signals[0, env] = 10;
                step.Signals[3, env] = 1;
                step.Terminated[env] = step.Truncated[env] = true;
            }
            if (action == -1) throw new InvalidOperationException("too slow");
            if (action == -2) step.Signals[4, env] = 1;
            if (action == -3) step.Observations[env, -1] = 1;
            if (action == -4) step.Truncated[2] = true;
            if (action == -5) step.IsHeld(7);
        }
    }

    private static void Refuse(Action<BatchSpec> change, ArraySpec action = null, bool isTwice = false)
    {
        BatchSpec spec = SpecOf(action);
        change(spec);
        try
        {
            new SharedMemoryTransport("lucky_refused", new Careless(spec, isTwice)).Dispose();
            Console.WriteLine("taken");
        }
        catch (TransportException error)
        {
            Console.WriteLine("{0}: {1}", error.Code, error.Message);
        }
    }

    private static ArraySpec Bounded(double[] low, double[] high)
    {
        return new ArraySpec(ElementType.Float32, 3) { Low = low, High = high };
    }

    private static int Refused()
    {
        Action<BatchSpec> nothing = spec => { };
        Refuse(spec => spec.TimeoutTerms = new[] { "nope" });
        Refuse(spec => spec.RewardTerms = new[] { "goal", "effort", "goal" });
        Refuse(spec => spec.TerminationTerms = new[] { "late", "late" });
        Refuse(spec => spec.StepSeconds = double.NaN);
        Refuse(nothing, Bounded(new[] { 0, double.NaN, 0 }, null));
        Refuse(nothing, Bounded(new[] { 0.0, 0, 2 }, new[] { 1.5 }));
        Refuse(nothing, new ArraySpec(ElementType.Float32) { Discrete = 3 });
        Refuse(nothing, isTwice: true);
        Refuse(spec => spec.Attributes["limits"] = new[] { 1, 2 });
        Refuse(spec => spec.Attributes["gain"] = float.PositiveInfinity);
        Refuse(spec => spec.Attributes["owner"] = null);
        return 0;
    }

    public static int Main(string[] arguments)
    {
        if (arguments[0] == "refused") return Refused();
        using (var transport = new SharedMemoryTransport(arguments[0], new Careless(SpecOf())))
        using (new TerminationSignals(transport))
        {
            Console.WriteLine("here");
            transport.Serve();
        }
        return 0;
    }
}
