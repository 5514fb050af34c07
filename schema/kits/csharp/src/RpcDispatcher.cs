using System;
using System.Collections.Generic;
using System.Threading;

namespace LuckyTransport
{
    /// <summary>
    /// The handlers of an engine, by method. One that throws a TransportException fails its call with that error; any
    /// other exception reaches the caller as EngineFailed, and standard error with its stack trace.
    /// </summary>
    public sealed class RpcDispatcher
    {
        // Streams that run at once, each on a thread of its own.
        private const int MaxStreams = 64;

        private sealed class Handler
        {
            internal bool IsStream;
            internal Runs Runs;
            internal Action<ServerCall> Answer;
        }

        private readonly Dictionary<uint, Handler> _handlers = new Dictionary<uint, Handler>();
        private readonly string _engine;
        private HashSet<uint> _defaults = new HashSet<uint>();
        private int _streams;

        internal RpcDispatcher(string engine) { _engine = engine; }

        internal World World { get; } = new World();

        /// <summary>
        /// Answers a method. The handler runs on the thread of Serve between two steps, and the next step waits for it;
        /// that of a method whose Runs is Pool runs on a thread of its own, and leaves the world alone. Throws ConfigError
        /// for a method that has a handler.
        /// </summary>
        public void Handle<TRequest, TResponse>(
            UnaryMethod<TRequest, TResponse> method, Func<TRequest, TResponse> handler)
            where TRequest : Message, new()
            where TResponse : Message, new()
        {
            Add(method.Id, new Handler
            {
                Runs = method.Runs,
                Answer = call => call.Finish(handler(Message.Decode<TRequest>(call.Payload))),
            });
        }

        /// <summary>
        /// Answers a stream. The handler runs on a thread of its own and is asked for an item only when its client can
        /// take one; it looks at the world in call.BetweenSteps. What it returns is disposed when the call is over. Throws
        /// ConfigError for a method that has a handler.
        /// </summary>
        public void Stream<TRequest, TItem>(
            StreamMethod<TRequest, TItem> method, Func<TRequest, Call, IEnumerable<TItem>> handler)
            where TRequest : Message, new()
            where TItem : Message, new()
        {
            Add(method.Id, new Handler
            {
                IsStream = true,
                Answer = call => Pull(call, handler(Message.Decode<TRequest>(call.Payload), new Call(call, World))),
            });
        }

        /// <summary>From here on handlers are the engine's own; one of them may replace a handler from before.</summary>
        internal void KeepDefaults() { _defaults = new HashSet<uint>(_handlers.Keys); }

        private void Add(uint method, Handler handler)
        {
            if (_handlers.ContainsKey(method) && !_defaults.Remove(method))
                throw new TransportException(WireCode.ConfigError,
                    Methods.Names[method] + " has a handler already; register one for each method");
            _handlers[method] = handler;
        }

        private static void Pull<TItem>(ServerCall call, IEnumerable<TItem> items) where TItem : Message
        {
            using (IEnumerator<TItem> each = items.GetEnumerator())
            {
                while (call.WaitForCredit() && each.MoveNext()) call.Send(each.Current);
            }
            call.Finish(null);
        }

        /// <summary>Begins to answer a call; never waits. For the engine's thread.</summary>
        internal void Begin(ServerCall call)
        {
            Handler handler;
            if (call.Shape == 0 && call.Path.Length == 0 && _handlers.TryGetValue(call.Method, out handler) && !handler.IsStream)
            {
                if (handler.Runs == Runs.Pool) ThreadPool.QueueUserWorkItem(_ => Answer(handler, call));
                else using (World.Enter()) Answer(handler, call);
                return;
            }
            string name = call.Name;
            if (call.Path.Length > 0 || !_handlers.TryGetValue(call.Method, out handler))
                call.Fail(new TransportException(
                    WireCode.Unimplemented, string.Format("engine '{0}' does not implement {1}", _engine, name)));
            else if (!handler.IsStream || call.Shape != ServerCall.ServerStream)
                call.Fail(new TransportException(WireCode.LocalProtocolError, string.Format(
                    "{0} was called with streams = {1}, it has {2}; use {3}",
                    name, call.Shape, handler.IsStream ? ServerCall.ServerStream : 0, handler.IsStream ? "stream()" : "call()")));
            else if (Interlocked.Increment(ref _streams) > MaxStreams)
            {
                Interlocked.Decrement(ref _streams);
                call.Fail(new TransportException(
                    WireCode.Busy, MaxStreams + " streams of this engine are open; wait for some of them"));
            }
            else new Thread(() => RunStream(handler, call)) { IsBackground = true, Name = "stream" }.Start();
        }

        private void RunStream(Handler handler, ServerCall call)
        {
            try
            {
                Answer(handler, call);
            }
            finally
            {
                call.EndImages();
                Interlocked.Decrement(ref _streams);
            }
        }

        private void Answer(Handler handler, ServerCall call)
        {
            try
            {
                handler.Answer(call);
            }
            catch (Exception error) // a handler is foreign code and may throw anything
            {
                var told = TransportException.Of(error, _engine, call.Name);
                if (told != error) Console.Error.WriteLine("lucky_transport: engine '{0}' failed in {1}: {2}", _engine, call.Name, error);
                call.Fail(told);
            }
        }
    }

    /// <summary>A stream's call as its handler sees it.</summary>
    public sealed class Call
    {
        private readonly ServerCall _call;
        private readonly World _world;

        internal Call(ServerCall call, World world)
        {
            _call = call;
            _world = world;
        }

        /// <summary>True once the caller has cancelled, left, or waits no longer.</summary>
        public bool IsOver { get { return _call.IsOver; } }

        /// <summary>Does something while the world stands still; keep it short, the next step waits.</summary>
        public void BetweenSteps(Action action) { _world.BetweenSteps(action); }

        /// <summary>
        /// The number of each tick, `hz` a second and the first at once, until the call is over. Ticks that passed
        /// before the next one was asked for are left out, and the client learns how many.
        /// </summary>
        public IEnumerable<int> Ticks(double hz)
        {
            var clock = System.Diagnostics.Stopwatch.StartNew();
            long tick = 0;
            while (!IsOver)
            {
                yield return (int)tick;
                long missed = (long)(clock.Elapsed.TotalSeconds * hz) - tick;
                if (missed > 0)
                {
                    _call.Dropped += (uint)(missed - 1);
                    tick += missed;
                    continue;
                }
                tick++;
                if (!Wait(tick / hz - clock.Elapsed.TotalSeconds)) yield break;
            }
        }

        /// <summary>Sleeps for so long; false at once when the call is over.</summary>
        public bool Wait(double seconds) { return _call.Wait(seconds); }
    }
}
