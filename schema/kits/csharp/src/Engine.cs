using System;

namespace LuckyTransport
{
    /// <summary>
    /// A batch of envs that step together: what a simulator implements. All of its methods are called on the thread
    /// that called SharedMemoryTransport.Serve, one at a time.
    /// </summary>
    public abstract class Engine
    {
        protected Engine(BatchSpec spec) { Spec = spec; }

        /// <summary>Sizes and names; they never change.</summary>
        public BatchSpec Spec { get; private set; }

        /// <summary>Called once before the first step: register the handlers of commands and streams.</summary>
        public virtual void Register(RpcDispatcher rpc) { }

        /// <summary>
        /// One exchange. For each env: reset it if step.IsReset(env), leave it and its rows alone if step.IsHeld(env),
        /// else advance it by its actions. Writes observations, signals and flags; the reward is the sum of the
        /// reward rows of the signals, and that, flags and signals of a reset env are 0 whatever is written.
        /// An exception reaches the client as EngineFailed; the next step is tried as usual.
        /// </summary>
        public abstract void Step(StepBuffers step);
    }

    /// <summary>Numbers in shared memory, a row after the other; an index outside is an IndexOutOfRangeException.</summary>
    public sealed unsafe class Float32Rows
    {
        private readonly float* _start;

        internal Float32Rows(float* start, int rows, int columns)
        {
            _start = start;
            Rows = rows;
            Columns = columns;
        }

        public int Rows { get; private set; }

        public int Columns { get; private set; }

        public float this[int row, int column]
        {
            get
            {
                if ((uint)row >= (uint)Rows || (uint)column >= (uint)Columns) throw new IndexOutOfRangeException();
                return _start[(long)row * Columns + column];
            }
            set
            {
                if ((uint)row >= (uint)Rows || (uint)column >= (uint)Columns) throw new IndexOutOfRangeException();
                _start[(long)row * Columns + column] = value;
            }
        }

        /// <summary>The first number, for unsafe code and for Marshal.Copy; valid while the transport is open.</summary>
        public IntPtr Start { get { return (IntPtr)_start; } }
    }

    /// <summary>One flag per env in shared memory.</summary>
    public sealed unsafe class FlagColumn
    {
        private readonly byte* _start;
        private readonly int _length;

        internal FlagColumn(byte* start, int length)
        {
            _start = start;
            _length = length;
        }

        public bool this[int env]
        {
            get
            {
                if ((uint)env >= (uint)_length) throw new IndexOutOfRangeException();
                return _start[env] != 0;
            }
            set
            {
                if ((uint)env >= (uint)_length) throw new IndexOutOfRangeException();
                _start[env] = value ? (byte)1 : (byte)0;
            }
        }
    }

    /// <summary>The arrays of one step. They lie in shared memory: keep no reference beyond the transport.</summary>
    public sealed unsafe class StepBuffers
    {
        private const byte Reset = 1, Hold = 2, Tick = 4;

        private readonly Float32Rows _actions, _observations;
        private readonly ElementType _actionType, _observationType;
        private readonly float* _rewards, _signals;
        private readonly byte* _terminated, _truncated, _segmentControl;
        private readonly byte[] _control;
        private readonly int _rewardTerms;
        private bool _hasControl;

        internal StepBuffers(byte* start, SegmentPlan plan, BatchSpec spec)
        {
            NumEnvs = spec.NumEnvs;
            _actionType = spec.Action.Type;
            _observationType = spec.Observation.Type;
            _actions = new Float32Rows((float*)(start + plan.Actions), NumEnvs, spec.Action.Size);
            _observations = new Float32Rows((float*)(start + plan.Observations), NumEnvs, spec.Observation.Size);
            _rewards = (float*)(start + plan.Rewards);
            _signals = (float*)(start + plan.Signals);
            _terminated = start + plan.Terminated;
            _truncated = start + plan.Truncated;
            _segmentControl = start + plan.Control;
            _control = new byte[NumEnvs];
            _rewardTerms = spec.RewardTerms.Length;
            Signals = new Float32Rows(_signals, spec.NumTerms, NumEnvs);
            Terminated = new FlagColumn(_terminated, NumEnvs);
            Truncated = new FlagColumn(_truncated, NumEnvs);
        }

        public int NumEnvs { get; private set; }

        /// <summary>[env, element], for float32 actions.</summary>
        public Float32Rows Actions { get { return Checked(_actions, _actionType, "ActionBytes"); } }

        /// <summary>[env, element], for float32 observations.</summary>
        public Float32Rows Observations { get { return Checked(_observations, _observationType, "ObservationBytes"); } }

        /// <summary>The actions of any element type: env after env.</summary>
        public IntPtr ActionBytes { get { return _actions.Start; } }

        /// <summary>The observations of any element type: env after env.</summary>
        public IntPtr ObservationBytes { get { return _observations.Start; } }

        /// <summary>[term, env]: the reward terms, then the termination terms, in the order of the spec.</summary>
        public Float32Rows Signals { get; private set; }

        /// <summary>The episode ended: its task was solved or failed.</summary>
        public FlagColumn Terminated { get; private set; }

        /// <summary>The episode ended for another reason, such as its time.</summary>
        public FlagColumn Truncated { get; private set; }

        /// <summary>True for an env that begins a new episode in this step, and does not advance.</summary>
        public bool IsReset(int env) { return _hasControl && (_control[env] & Reset) != 0; }

        /// <summary>True for an env that stays exactly as it is.</summary>
        public bool IsHeld(int env) { return _hasControl && (_control[env] & (Reset | Hold)) == Hold; }

        /// <summary>True for an env that advances without new actions: its row of them is 0.</summary>
        public bool IsTick(int env) { return _hasControl && (_control[env] & (Reset | Hold | Tick)) == Tick; }

        private static Float32Rows Checked(Float32Rows rows, ElementType type, string instead)
        {
            if (type != ElementType.Float32) throw new InvalidOperationException("the elements are " + type + ": use " + instead);
            return rows;
        }

        /// <summary>Takes the control bytes: read once, because the client could change them meanwhile.</summary>
        internal void Begin(bool hasControl)
        {
            _hasControl = hasControl;
            if (hasControl)
                for (int env = 0; env < NumEnvs; env++) _control[env] = _segmentControl[env];
        }

        /// <summary>Sums the rewards; those, flags and signals of reset envs are 0.</summary>
        internal void End()
        {
            if (_hasControl)
                for (int env = 0; env < NumEnvs; env++)
                    if ((_control[env] & Reset) != 0)
                    {
                        _terminated[env] = _truncated[env] = 0;
                        for (int term = 0; term < Signals.Rows; term++) _signals[(long)term * NumEnvs + env] = 0;
                    }
            for (int env = 0; env < NumEnvs; env++)
            {
                float sum = _signals[env]; // in float32, one row after the other, as every side of the wire does
                for (int term = 1; term < _rewardTerms; term++) sum = (float)(sum + _signals[(long)term * NumEnvs + env]);
                _rewards[env] = sum;
            }
        }
    }
}
