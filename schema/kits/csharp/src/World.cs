using System;
using System.Threading;

namespace LuckyTransport
{
    /// <summary>The lock under which the engine steps; others enter between two steps.</summary>
    internal sealed class World
    {
        // The engine's thread takes the lock again at once; it gives waiters so long to be first.
        private const int YieldMs = 1;

        private readonly object _gate = new object();
        private int _waiters;

        /// <summary>Leaves the world when it is disposed.</summary>
        internal struct Entered : IDisposable
        {
            internal object Gate;

            public void Dispose() { Monitor.Exit(Gate); }
        }

        /// <summary>For the thread that steps.</summary>
        internal Entered Enter()
        {
            Monitor.Enter(_gate);
            return new Entered { Gate = _gate };
        }

        /// <summary>For any other thread.</summary>
        internal void BetweenSteps(Action action)
        {
            Interlocked.Increment(ref _waiters);
            try
            {
                Monitor.Enter(_gate);
            }
            finally
            {
                Interlocked.Decrement(ref _waiters);
            }
            try
            {
                action();
            }
            finally
            {
                Monitor.Exit(_gate);
            }
        }

        /// <summary>Lets threads that wait for the world have it.</summary>
        internal void YieldToWaiters()
        {
            if (Volatile.Read(ref _waiters) == 0) return;
            SpinWait.SpinUntil(() => Volatile.Read(ref _waiters) == 0, YieldMs);
        }
    }
}
