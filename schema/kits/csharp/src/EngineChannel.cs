using System;
using System.Threading;

namespace LuckyTransport
{
    /// <summary>What the engine finds when it looks: actions (Control: some control byte is not 0), commands.</summary>
    [Flags]
    internal enum Found
    {
        Nothing = 0,
        Actions = 1,
        Control = 2,
        Commands = 4,
        OutOfOrder = 8,
    }

    /// <summary>The engine's end of the step counters: waits for actions and commands, announces frames.</summary>
    internal sealed unsafe class EngineChannel
    {
        private readonly ulong* _frameSeq, _actionSeq, _heartbeat;
        private readonly uint* _frameStatus, _commands;
        private readonly int* _parkEngine, _parkFrame;
        private readonly byte* _control;
        private readonly int _numEnvs;
        private readonly Waiter _waiter;
        private ulong _seq;
        private uint _commandsRead;
        private int _interrupted;
        private bool _peerParks = true;

        /// <summary>`check` is called after each sleep; it may throw.</summary>
        internal EngineChannel(byte* start, SegmentPlan plan, int numEnvs, Action check)
        {
            _waiter = new Waiter(check);
            _frameSeq = (ulong*)(start + HeaderField.FrameSeq);
            _actionSeq = (ulong*)(start + HeaderField.ActionSeq);
            _heartbeat = (ulong*)(start + HeaderField.Heartbeat);
            _frameStatus = (uint*)(start + HeaderField.FrameStatus);
            _commands = (uint*)(start + plan.RingToEngine);
            _parkEngine = (int*)(start + HeaderField.ParkEngine);
            _parkFrame = (int*)(start + HeaderField.ParkFrame);
            _control = start + plan.Control;
            _numEnvs = numEnvs;
            _seq = Volatile.Read(ref *_frameSeq);
        }

        private struct Watch : IWatch
        {
            internal EngineChannel Channel;

            public bool HasChanged { get { return Channel.HasWork; } }
        }

        private bool HasWork
        {
            get
            {
                return Volatile.Read(ref *_actionSeq) != _seq || Volatile.Read(ref *_commands) != _commandsRead
                    || Volatile.Read(ref _interrupted) != 0;
            }
        }

        /// <summary>True when the client awaits the frame that comes next.</summary>
        internal bool IsAwaited { get { return Volatile.Read(ref *_actionSeq) == _seq + 1; } }

        /// <summary>Waits for so long at most.</summary>
        internal Found Next(long timeoutNs)
        {
            *_heartbeat += 1;
            var watch = new Watch { Channel = this };
            if (!_waiter.Wait(ref watch, _parkEngine, timeoutNs)) return Found.Nothing;
            if (Interlocked.Exchange(ref _interrupted, 0) != 0) return Found.Nothing; // what there is is found again
            ulong actions = Volatile.Read(ref *_actionSeq);
            Found found = Volatile.Read(ref *_commands) != _commandsRead ? Found.Commands : Found.Nothing;
            if (actions == _seq) return found;
            if (actions != _seq + 1) return Found.OutOfOrder;
            FaultPoint.Reached("actions.received");
            found |= Found.Actions;
            for (int env = 0; env < _numEnvs; env++)
                if (_control[env] != 0) return found | Found.Control;
            return found;
        }

        /// <summary>Announces the frame; a status that is not 0 is the code of the error there is instead of one.</summary>
        internal void Publish(uint status)
        {
            FaultPoint.Reached("frame.written");
            *_frameStatus = status;
            ParkWord.TellCpu(_parkFrame);
            FaultPoint.Reached("frame.status");
            _seq++;
            Volatile.Write(ref *_frameSeq, _seq);
            FaultPoint.Reached("frame.counted");
            if (_peerParks) ParkWord.Wake(_parkFrame);
            FaultPoint.Reached("frame.sent");
        }

        /// <summary>Drops the exchange that does not fit.</summary>
        internal void Resync() { Volatile.Write(ref *_actionSeq, _seq); }

        /// <summary>The commands up to that position are read, or are looked at later.</summary>
        internal void CommandsRead(uint position) { _commandsRead = position; }

        /// <summary>What the client does: whether it parks and so has to be woken, and whether it wakes this side.</summary>
        internal void SetPeer(Feature features)
        {
            _peerParks = (features & Feature.Parks) != 0;
            _waiter.IsWoken = (features & Feature.Wake) != 0;
            Volatile.Write(ref _parkEngine[1], 0); // the CPU of the client before it, if it says none itself
        }

        /// <summary>Ends the present wait, or the next one; from any thread.</summary>
        internal void Interrupt()
        {
            Volatile.Write(ref _interrupted, 1);
            ParkWord.Wake(_parkEngine);
        }
    }
}
