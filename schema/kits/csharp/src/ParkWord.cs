using System.Diagnostics;
using System.Threading;

namespace LuckyTransport
{
    /// <summary>
    /// A word of shared memory that is 1 while a side sleeps on it. Publishing is: data, release store of a counter,
    /// full fence, look at the park word, wake. Waiting is: park = 1, full fence, look at the counter again, futex. The
    /// two fences close the window in which both sides would read the old value and the wake-up would be lost.
    /// </summary>
    internal static unsafe class ParkWord
    {
        /// <summary>Wakes the side that sleeps on the word, if one does. What it waits for has been stored.</summary>
        internal static void Wake(int* word)
        {
            Interlocked.MemoryBarrier();
            if (Volatile.Read(ref *word) != 0 && Interlocked.Exchange(ref *word, 0) != 0) Libc.WakeOne(word);
        }

        /// <summary>Says behind the peer's park word on which CPU, counted from 1, this side publishes: a hint.</summary>
        internal static void TellCpu(int* word)
        {
            int cpu = Libc.sched_getcpu() + 1;
            if (Volatile.Read(ref word[1]) != cpu) Volatile.Write(ref word[1], cpu);
        }

        /// <summary>The peer published last on the CPU that this thread runs on, so it does not run while we look.</summary>
        internal static bool PeerSharesCpu(int* word)
        {
            int cpu = Volatile.Read(ref word[1]);
            return cpu != 0 && cpu == Libc.sched_getcpu() + 1;
        }
    }

    /// <summary>What a waiter looks at.</summary>
    internal interface IWatch
    {
        bool HasChanged { get; }
    }

    /// <summary>
    /// Waits as lucky_transport/_native/wait.c does: looks and pauses, then looks and yields, then sleeps on its
    /// park word. It learns from its waits: after several short ones it yields for longer, after two long ones it
    /// sleeps at once.
    /// </summary>
    internal sealed unsafe class Waiter
    {
        private static readonly double TicksPerNs = Stopwatch.Frequency / 1e9;

        private readonly System.Action _check;
        private int _score;
        private bool _wasIdle;
        private int _withoutYields; // so many waits do not yield, since other programs want the core

        /// <summary>`check` is called after each sleep, before the memory is touched again; it may throw.</summary>
        internal Waiter(System.Action check) { _check = check; }

        /// <summary>False for a client that never wakes us: it is polled.</summary>
        internal bool IsWoken = true;

        /// <summary>Waits for so long at most; returns whether there was a change.</summary>
        internal bool Wait<TWatch>(ref TWatch watch, int* park, long timeoutNs) where TWatch : struct, IWatch
        {
            bool sleepsAtOnce = _wasIdle || _score == Timing.ScoreLate || ParkWord.PeerSharesCpu(park);
            _wasIdle = false;
            if (watch.HasChanged)
            {
                Learn(true);
                return true;
            }
            if (timeoutNs <= 0) return false;
            long start = Stopwatch.GetTimestamp();
            bool changed = !sleepsAtOnce && Spin(ref watch, start, timeoutNs);
            long waited = Elapsed(start);
            if (!changed && waited < timeoutNs)
            {
                bool missed = IsWoken && !Park(ref watch, park, timeoutNs - waited);
                if (!IsWoken) Poll(ref watch, start, timeoutNs);
                changed = !missed && watch.HasChanged;
                waited = Elapsed(start);
            }
            if (changed || waited > Timing.SoonNs) Learn(waited <= Timing.SoonNs);
            _wasIdle = !changed; // until something happens
            return changed;
        }

        private bool Spin<TWatch>(ref TWatch watch, long start, long timeoutNs) where TWatch : struct, IWatch
        {
            long longest = _score == Timing.ScoreSoon ? Timing.SoonNs : Timing.YieldNs;
            if (timeoutNs < longest) longest = timeoutNs;
            long waited = 0;
            bool yields = _withoutYields == 0;
            if (!yields) _withoutYields--;
            do
            {
                for (int i = 0; i < Timing.Pauses; i++)
                {
                    if (watch.HasChanged) return true;
                    Thread.SpinWait(1);
                }
                waited = Elapsed(start);
                if (waited < Timing.PauseNs) continue;
                if (!yields) break;
                long before = waited;
                Libc.sched_yield();
                waited = Elapsed(start);
                if (waited - before > Timing.LostCoreNs) _withoutYields = Timing.LostCoreWaits;
            }
            while (waited < longest);
            return watch.HasChanged;
        }

        // False when nobody woke us, though something may have changed. A peer that publishes and dies before it wakes us
        // is looked after at once then, not after another slice.
        private bool Park<TWatch>(ref TWatch watch, int* park, long nanoseconds) where TWatch : struct, IWatch
        {
            bool woken = true;
            Volatile.Write(ref *park, 1);
            Interlocked.MemoryBarrier();
            if (!watch.HasChanged)
            {
                Libc.WaitWhileOne(park, nanoseconds);
                _check();
                woken = Volatile.Read(ref *park) == 0;
            }
            Volatile.Write(ref *park, 0);
            return woken;
        }

        private static void Poll<TWatch>(ref TWatch watch, long start, long timeoutNs) where TWatch : struct, IWatch
        {
            while (!watch.HasChanged && Elapsed(start) < timeoutNs) Thread.Sleep(1);
        }

        // +1 for a wait that was over soon, -1 for a longer one, a new start at each turn: a change of rate is believed
        // at once, an extreme only after some waits that agree.
        private void Learn(bool soon)
        {
            if (soon) _score = _score < 0 ? 0 : _score < Timing.ScoreSoon ? _score + 1 : Timing.ScoreSoon;
            else _score = _score > 0 ? 0 : _score > Timing.ScoreLate ? _score - 1 : Timing.ScoreLate;
        }

        private static long Elapsed(long start)
        {
            return (long)((Stopwatch.GetTimestamp() - start) / TicksPerNs);
        }
    }
}
