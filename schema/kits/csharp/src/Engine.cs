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
        /// else advance it by its actions. Writes observations, and those signals and flags that are not 0: the kit
        /// clears both before the call, but for held envs. The reward is the sum of the reward rows of the signals; that,
        /// flags and signals of a reset env are 0 whatever is written.
        ///
        /// An exception is written to standard error, and the client's step raises it as EngineFailed, or as the class of a
        /// TransportException. Envs before the failing one have advanced then, so a VectorEnv raises NeedsReset until its
        /// reset; the engine gets that reset as usual.
        /// </summary>
        public abstract void Step(StepBuffers step);
    }

    /// <summary>Numbers in shared memory, a row after the other; an index outside is an IndexOutOfRangeException.</summary>
    public sealed unsafe class Float32Rows
    {
        private readonly float* _start;
        private readonly string _name, _row, _column;

        /// <summary>name, row, column: what the array and its axes are called in errors.</summary>
        internal Float32Rows(float* start, string name, string row, int rows, string column, int columns)
        {
            _start = start;
            _name = name;
            _row = row;
            _column = column;
            Rows = rows;
            Columns = columns;
        }

        public int Rows { get; private set; }

        public int Columns { get; private set; }

        public float this[int row, int column]
        {
            get
            {
                if ((uint)row >= (uint)Rows || (uint)column >= (uint)Columns) throw Outside(row, column);
                return _start[(long)row * Columns + column];
            }
            set
            {
                if ((uint)row >= (uint)Rows || (uint)column >= (uint)Columns) throw Outside(row, column);
                _start[(long)row * Columns + column] = value;
            }
        }

        /// <summary>The first number, for unsafe code and for Marshal.Copy; valid while the transport is open.</summary>
        public IntPtr Start { get { return (IntPtr)_start; } }

        private Exception Outside(int row, int column)
        {
            return new IndexOutOfRangeException(string.Format("{0}[{1}, {2}]: there are {3} {4}s and {5} {6}s, counted from 0",
                _name, row, column, Rows, _row, Columns, _column));
        }
    }

    /// <summary>One flag per env in shared memory.</summary>
    public sealed unsafe class FlagColumn
    {
        private readonly byte* _start;
        private readonly string _name;
        private readonly int _length;

        internal FlagColumn(byte* start, string name, int length)
        {
            _start = start;
            _name = name;
            _length = length;
        }

        public bool this[int env]
        {
            get
            {
                if ((uint)env >= (uint)_length) throw StepBuffers.Outside(_name + "[{0}]", env, _length);
                return _start[env] != 0;
            }
            set
            {
                if ((uint)env >= (uint)_length) throw StepBuffers.Outside(_name + "[{0}]", env, _length);
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
            _actions = new Float32Rows((float*)(start + plan.Actions), "Actions", "env", NumEnvs, "element", spec.Action.Size);
            _observations = new Float32Rows(
                (float*)(start + plan.Observations), "Observations", "env", NumEnvs, "element", spec.Observation.Size);
            _rewards = (float*)(start + plan.Rewards);
            _signals = (float*)(start + plan.Signals);
            _terminated = start + plan.Terminated;
            _truncated = start + plan.Truncated;
            _segmentControl = start + plan.Control;
            _control = new byte[NumEnvs];
            _rewardTerms = spec.RewardTerms.Length;
            Signals = new Float32Rows(_signals, "Signals", "term", spec.NumTerms, "env", NumEnvs);
            Terminated = new FlagColumn(_terminated, "Terminated", NumEnvs);
            Truncated = new FlagColumn(_truncated, "Truncated", NumEnvs);
        }

        public int NumEnvs { get; private set; }

        /// <summary>[env, element], for float32 actions.</summary>
        public Float32Rows Actions { get { return Checked(_actions, _actionType, "ActionBytes"); } }

        /// <summary>[env, element], for float32 observations.</summary>
        public Float32Rows Observations { get { return Checked(_observations, _observationType, "ObservationBytes"); } }

        /// <summary>The first byte of the actions, of any element type: those of one env, then those of the next.</summary>
        public IntPtr ActionBytes { get { return _actions.Start; } }

        /// <summary>The first byte of the observations, of any element type: those of one env, then those of the next.</summary>
        public IntPtr ObservationBytes { get { return _observations.Start; } }

        /// <summary>
        /// [term, env]: the reward terms, then the termination terms, in the order of the spec. All 0 when a step begins,
        /// but for held envs; Terminated and Truncated too.
        /// </summary>
        public Float32Rows Signals { get; private set; }

        /// <summary>The episode ended: its task was solved or failed.</summary>
        public FlagColumn Terminated { get; private set; }

        /// <summary>The episode ended for another reason, such as its time.</summary>
        public FlagColumn Truncated { get; private set; }

        /// <summary>True for an env that begins a new episode in this step, and does not advance.</summary>
        public bool IsReset(int env) { return (ControlOf(env) & Reset) != 0; }

        /// <summary>True for an env that stays exactly as it is.</summary>
        public bool IsHeld(int env) { return (ControlOf(env) & (Reset | Hold)) == Hold; }

        /// <summary>True for an env that advances without new actions: its row of them is 0.</summary>
        public bool IsTick(int env) { return (ControlOf(env) & (Reset | Hold | Tick)) == Tick; }

        private byte ControlOf(int env)
        {
            if ((uint)env >= (uint)NumEnvs) throw Outside("env {0}", env, NumEnvs);
            return _hasControl ? _control[env] : (byte)0;
        }

        internal static Exception Outside(string what, int env, int numEnvs)
        {
            return new IndexOutOfRangeException(string.Format(what + ": there are {1} envs, counted from 0", env, numEnvs));
        }

        private static Float32Rows Checked(Float32Rows rows, ElementType type, string instead)
        {
            if (type != ElementType.Float32) throw new InvalidOperationException("the elements are " + type + ": use " + instead);
            return rows;
        }

        /// <summary>
        /// Takes the control bytes, read once because the client could change them meanwhile, and clears the signals and
        /// flags of the envs that are not held.
        /// </summary>
        internal void Begin(bool hasControl)
        {
            _hasControl = hasControl;
            if (!hasControl)
            {
                Libc.memset(_signals, 0, (ulong)Signals.Rows * (ulong)NumEnvs * sizeof(float));
                Libc.memset(_terminated, 0, (ulong)NumEnvs);
                Libc.memset(_truncated, 0, (ulong)NumEnvs);
                return;
            }
            for (int env = 0; env < NumEnvs; env++)
            {
                _control[env] = _segmentControl[env];
                if (!IsHeld(env)) Clear(env);
            }
        }

        /// <summary>Sums the rewards; those, flags and signals of reset envs are 0.</summary>
        internal void End()
        {
            for (int env = 0; _hasControl && env < NumEnvs; env++)
                if (IsReset(env)) Clear(env);
            for (int env = 0; env < NumEnvs; env++)
            {
                float sum = _signals[env]; // in float32, one row after the other, as every side of the wire does
                for (int term = 1; term < _rewardTerms; term++) sum = (float)(sum + _signals[(long)term * NumEnvs + env]);
                _rewards[env] = sum;
            }
        }

        private void Clear(int env)
        {
            _terminated[env] = _truncated[env] = 0;
            for (int term = 0; term < Signals.Rows; term++) _signals[(long)term * NumEnvs + env] = 0;
        }
    }
}
